/** The memory of all notes, their commitments, and the table of known ones. */

import type { ByteIndex } from '../../memory/byte_index'
import { HandleLinks, newList } from '../../memory/handle_list'
import { type Ids, IdTable } from '../../memory/id_table'
import { copyBytes, RowSlab } from '../../memory/rows'
import { NOTE_STATUSES, Note, type NoteContext, type NoteFacts } from './note'
import * as row from './note_row'
import type { State } from './state'

// Where the commitments of notes lie: that of a finalized note is its leaf and stands nowhere else.

const WIDTH = 32
/** A commitment, then the leaf index that was told before the leaf was final. */
const CELL_BYTES = WIDTH + 4
/** A note's number from here on names a cell, below it a leaf. */
const CELLS = 0x8000_0000

/** Named by the handle of their note; most notes that live have their leaf. */
export class Commitments implements Ids {
  /** Those of notes that have no leaf yet. */
  private readonly cells = new RowSlab(CELL_BYTES)

  constructor(
    private readonly notes: RowSlab,
    private readonly leaves: ByteIndex,
  ) {}

  /** Notes whose commitment has memory of its own. */
  get leafless(): number {
    return this.cells.size
  }

  bytesOf(handle: number): Uint8Array {
    const number = this.numberOf(handle)
    return number < CELLS ? this.leaves.bytesOf(number) : this.cells.bytesOf(number - CELLS)
  }

  placeOf(handle: number): number {
    const number = this.numberOf(handle)
    return number < CELLS ? this.leaves.placeOf(number) : this.cells.placeOf(number - CELLS)
  }

  /**
   * Gives a note the commitment at `from` of `bytes`.
   * @param leaf_index that is told of it; the leaf itself may not be final yet
   */
  put(handle: number, bytes: Uint8Array, from: number, leaf_index?: number): void {
    this.mark(handle, row.HAS_COMMITMENT | (leaf_index === undefined ? 0 : row.HAS_LEAF_INDEX))
    const leaf = leaf_index ?? this.leaves.indexOf(bytes, from)
    if (leaf !== undefined && leaf < CELLS && this.leaves.holds(leaf, bytes, from)) {
      this.setNumber(handle, leaf)
      return
    }
    const cell = this.cells.take()
    const { bytes: cells, view } = this.cells.chunkOf(cell)
    const at = this.cells.placeOf(cell)
    copyBytes(bytes, from, cells, at, WIDTH)
    view.setUint32(at + WIDTH, leaf_index ?? 0, true)
    this.setNumber(handle, CELLS + cell)
  }

  /** The commitment of a note is a leaf from now on; where another leaf was told of it, it stays as it is. */
  land(handle: number, leaf_index: number): void {
    if (this.numberOf(handle) < CELLS || leaf_index >= CELLS) return
    if ((this.leafIndex(handle) ?? leaf_index) !== leaf_index) return
    this.drop(handle)
    this.setNumber(handle, leaf_index)
  }

  /** The leaf index that was told of it. */
  leafIndex(handle: number): number | undefined {
    if (!this.flag(handle, row.HAS_LEAF_INDEX)) return undefined
    const number = this.numberOf(handle)
    if (number < CELLS) return number
    const cell = number - CELLS
    return this.cells.chunkOf(cell).view.getUint32(this.cells.placeOf(cell) + WIDTH, true)
  }

  /** The note keeps it no more. */
  drop(handle: number): void {
    const number = this.numberOf(handle)
    if (this.flag(handle, row.HAS_COMMITMENT) && number >= CELLS) this.cells.give(number - CELLS)
  }

  private numberOf(handle: number): number {
    return this.notes.chunkOf(handle).view.getUint32(this.notes.placeOf(handle) + row.COMMITMENT_AT, true)
  }

  private setNumber(handle: number, number: number): void {
    this.notes.chunkOf(handle).view.setUint32(this.notes.placeOf(handle) + row.COMMITMENT_AT, number, true)
  }

  private flag(handle: number, flag: number): boolean {
    return (this.notes.bytesOf(handle)[this.notes.placeOf(handle) + row.FLAGS_AT]! & flag) !== 0
  }

  private mark(handle: number, flag: number): void {
    this.notes.bytesOf(handle)[this.notes.placeOf(handle) + row.FLAGS_AT]! |= flag
  }
}

// Owns the memory of all notes and the table of those that are known: about 115 bytes a note that has its leaf.

/**
 * A note lives while it is known or held. The holders are: a live order (its collateral and the notes of its fills), a
 * settlement batch (inputs and outputs), a payment that is readable, an open exit.
 */
export class Notes {
  private readonly rows = new RowSlab(row.NOTE_BYTES)
  private readonly commitments: Commitments
  private readonly table: IdTable
  private readonly list = newList()
  private readonly links = new HandleLinks(this.rows, row.LINKS_AT)
  private readonly context: NoteContext
  /** Known notes. */
  size = 0

  constructor(private readonly state: Pick<State, 'keys' | 'key_list' | 'leaves'>) {
    this.commitments = new Commitments(this.rows, state.leaves)
    this.table = new IdTable(this.commitments, 32)
    this.context = { keys: state.key_list, others: new Map(), commitments: this.commitments }
  }

  /** Notes that live, known or not, and a bound above their handles. */
  get lives(): number {
    return this.rows.size
  }
  get end(): number {
    return this.rows.end
  }
  /** Those of them that have their commitment and no leaf. */
  get leafless(): number {
    return this.commitments.leafless
  }

  /** Makes room for so many notes at once, so many of them known, where there are none. */
  reserve(count: number, known: number): void {
    this.rows.reach(count)
    this.table.reserve(known)
  }

  /** The known note of a commitment of 32 bytes. */
  find(commitment: Uint8Array): Note | undefined {
    const handle = this.table.find(commitment)
    return handle === undefined ? undefined : this.at(handle)
  }

  /** The same by hex. */
  get(commitment: string): Note | undefined {
    return this.find(Uint8Array.fromHex(commitment))
  }

  has(commitment: string): boolean {
    return this.table.find(Uint8Array.fromHex(commitment)) !== undefined
  }

  /** Known notes in the order in which they became known. */
  *values(): Generator<Note> {
    for (let handle = this.list.first; handle !== 0; handle = this.links.next(handle)) yield this.at(handle)
  }

  /** Their handles, in the same order: said without a reference to any. */
  eachHandle(tell: (handle: number) => void): void {
    for (let handle = this.list.first; handle !== 0; handle = this.links.next(handle)) tell(handle)
  }

  /** A reference to the living note of a handle. */
  at(handle: number): Note {
    return new Note(handle, this.rows.chunkOf(handle), this.rows.placeOf(handle), this.context)
  }

  /** A new note, not known yet: the caller holds it or makes it known before its command ends. */
  create(facts: NoteFacts): Note {
    const handle = this.rows.take()
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    const owner = facts.key ?? this.state.keys.get(facts.owner)
    if (owner === undefined) this.context.others.set(handle, facts.owner)
    view.setUint32(at + row.OWNER_AT, owner === undefined ? 0 : owner.index + 1, true)
    view.setUint16(at + row.MINT_AT, facts.mint, true)
    view.setBigUint64(at + row.AMOUNT_AT, facts.amount, true)
    bytes[at + row.STATUS_AT] = NOTE_STATUSES.indexOf(facts.status)
    const { commitment, blinding, nullifier, leaf_index } = facts
    let flags = 0
    if (blinding !== undefined) flags |= row.HAS_BLINDING
    if (nullifier !== undefined) flags |= row.HAS_NULLIFIER
    if (blinding !== undefined) copyBytes(blinding, 0, bytes, at + row.BLINDING_AT, 32)
    if (nullifier !== undefined) copyBytes(nullifier, 0, bytes, at + row.NULLIFIER_AT, 32)
    bytes[at + row.FLAGS_AT] = flags
    if (commitment !== undefined) this.commitments.put(handle, commitment, 0, leaf_index)
    return this.at(handle)
  }

  /** Puts the commitment of a note that was read from a snapshot where it belongs, now that the leaves are read. */
  settle(handle: number, commitments: Uint8Array, from: number): void {
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    const flags = bytes[at + row.FLAGS_AT]!
    if ((flags & row.HAS_COMMITMENT) === 0) return
    const cited = (flags & row.HAS_LEAF_INDEX) !== 0
    const leaf_index = cited ? view.getUint32(at + row.COMMITMENT_AT, true) : undefined
    this.commitments.put(handle, commitments, from, leaf_index)
  }

  /** Gives a note what hashing found. */
  reveal(note: Note, commitment: Uint8Array, blinding: Uint8Array): void {
    const { bytes } = note.chunk
    bytes.set(blinding, note.at(row.BLINDING_AT))
    bytes[note.at(row.FLAGS_AT)]! |= row.HAS_BLINDING
    this.commitments.put(note.handle, commitment, 0)
  }

  /** The commitment of a note is a finalized leaf from now on. */
  land(note: Note, leaf_index: number): void {
    note.at(0)
    this.commitments.land(note.handle, leaf_index)
  }

  /** Makes a note known that has its commitment. @throws Error when another note of this commitment is known. */
  register(note: Note): void {
    const at = note.at(row.FLAGS_AT)
    const { bytes } = note.chunk
    if ((bytes[at]! & row.HAS_COMMITMENT) === 0) throw new Error('a note is not hashed yet')
    this.table.add(note.handle)
    this.links.append(this.list, note.handle)
    bytes[at]! |= row.KNOWN
    this.size++
  }

  /** Lets go of a known note: it lives on only where it is held. */
  forget(note: Note): void {
    const at = note.at(row.FLAGS_AT)
    this.table.remove(note.handle)
    this.links.remove(this.list, note.handle)
    note.chunk.bytes[at]! &= ~row.KNOWN
    this.size--
    this.freeUnused(note.handle)
  }

  hold(note: Note): void {
    note.at(0)
    this.count(note.handle, 1)
  }

  /** @throws Error for a note that is not held. */
  drop(note: Note): void {
    note.at(0)
    this.dropAt(note.handle)
  }

  /** The same by the handle of a living note. */
  dropAt(handle: number): void {
    this.count(handle, -1)
    this.freeUnused(handle)
  }

  /** How many hold a note. */
  holds(note: Note): number {
    return note.chunk.view.getUint32(note.at(row.HOLDS_AT), true)
  }

  private count(handle: number, change: number): void {
    const { view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle) + row.HOLDS_AT
    const holds = view.getUint32(at, true) + change
    if (holds < 0) throw new Error('a note is not held')
    view.setUint32(at, holds, true)
  }

  /** Nothing of it stays but the count of notes its row held. */
  private freeUnused(handle: number): void {
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    if ((bytes[at + row.FLAGS_AT]! & row.KNOWN) !== 0 || view.getUint32(at + row.HOLDS_AT, true) > 0) return
    this.commitments.drop(handle)
    const life = view.getUint16(at + row.LIFE_AT, true)
    bytes.fill(0, at, at + row.NOTE_BYTES)
    view.setUint16(at + row.LIFE_AT, life + 1, true)
    this.context.others.delete(handle)
    this.rows.give(handle)
  }
}
