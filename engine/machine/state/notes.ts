/** Stores all notes and their commitments, and finds known notes by commitment. */
import { copyBytes } from '../../../protocol/bytes'
import type { ByteIndex } from '../../memory/byte_index'
import { HandleLinks, newList } from '../../memory/handle_list'
import { type HashSeed, type Ids, IdTable } from '../../memory/id_table'
import { RowSlab } from '../../memory/rows'
import { keyOf } from './account'
import { NOTE_STATUSES, Note, type NoteContext, type NoteFacts } from './note'
import * as row from './note_row'
import type { State } from './state'

const WIDTH = 32
/** A commitment, then the leaf index cited before the leaf was final. */
const CELL_BYTES = WIDTH + 4
/** A commitment's number is a leaf index below this, and a cell handle plus this from here on. */
const CELLS = 0x8000_0000

/**
 * Commitments by the handle of their note. The commitment of a note with a finalized leaf is stored only in `leaves`; most
 * live notes have one.
 */
export class Commitments implements Ids {
  /** Commitments of notes that have no leaf yet. */
  private readonly cells = new RowSlab(CELL_BYTES)

  constructor(
    private readonly notes: RowSlab,
    private readonly leaves: ByteIndex,
  ) {}

  /** Number of notes whose commitment is in a cell. */
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
   * Sets the commitment of a note to the 32 bytes at `from`.
   * @param leaf_index cited for the note; the leaf itself may not be final yet
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

  /** Moves the commitment of a note to its finalized leaf, unless another leaf index was cited for the note. */
  land(handle: number, leaf_index: number): void {
    if (this.numberOf(handle) < CELLS || leaf_index >= CELLS) return
    if ((this.leafIndex(handle) ?? leaf_index) !== leaf_index) return
    this.drop(handle)
    this.setNumber(handle, leaf_index)
  }

  /** The leaf index cited for the note. */
  leafIndex(handle: number): number | undefined {
    if (!this.flag(handle, row.HAS_LEAF_INDEX)) return undefined
    const number = this.numberOf(handle)
    if (number < CELLS) return number
    const cell = number - CELLS
    return this.cells.chunkOf(cell).view.getUint32(this.cells.placeOf(cell) + WIDTH, true)
  }

  /** Frees the cell of a note's commitment, if it has one. */
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

/**
 * All notes, about 115 bytes each with a finalized leaf. A note lives while it is known or held. Holders are live orders
 * (collateral and notes of fills), settlement batches (inputs and outputs), readable payments and open exits.
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

  constructor(
    private readonly state: Pick<State, 'key_index' | 'key_list' | 'leaves'>,
    seed: HashSeed,
  ) {
    this.commitments = new Commitments(this.rows, state.leaves)
    this.table = new IdTable(this.commitments, seed, WIDTH)
    this.context = { keys: state.key_list, others: new Map(), commitments: this.commitments }
  }

  /** Live notes, known or not. */
  get lives(): number {
    return this.rows.size
  }
  /** Above the handles of all notes. */
  get end(): number {
    return this.rows.end
  }
  /** Live notes that have a commitment and no leaf. */
  get leafless(): number {
    return this.commitments.leafless
  }

  /** Allocates for `count` notes, `known` of them known; there must be none yet. */
  reserve(count: number, known: number): void {
    this.rows.reach(count)
    this.table.reserve(known)
  }

  /** The known note of a commitment of 32 bytes. */
  find(commitment: Uint8Array): Note | undefined {
    const handle = this.table.find(commitment)
    return handle === undefined ? undefined : this.at(handle)
  }

  has(commitment: Uint8Array): boolean {
    return this.table.find(commitment) !== undefined
  }

  /** Known notes, in the order in which they became known. */
  *values(): Generator<Note> {
    for (let handle = this.list.first; handle !== 0; handle = this.links.next(handle)) yield this.at(handle)
  }

  /** Visits the handles of known notes in the same order, without allocating references. */
  eachHandle(visit: (handle: number) => void): void {
    for (let handle = this.list.first; handle !== 0; handle = this.links.next(handle)) visit(handle)
  }

  /** A reference to the live note of a handle. */
  at(handle: number): Note {
    return new Note(handle, this.rows.chunkOf(handle), this.rows.placeOf(handle), this.context)
  }

  /** Creates a note that is not known yet: the caller must hold or register it in the same command. */
  create(facts: NoteFacts): Note {
    const handle = this.rows.take()
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    const owner = facts.key ?? keyOf(this.state, facts.owner)
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

  /** Stores the commitment of a note read from a snapshot; the leaves must have been read. */
  settle(handle: number, commitments: Uint8Array, from: number): void {
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    const flags = bytes[at + row.FLAGS_AT]!
    if ((flags & row.HAS_COMMITMENT) === 0) return
    const cited = (flags & row.HAS_LEAF_INDEX) !== 0
    const leaf_index = cited ? view.getUint32(at + row.COMMITMENT_AT, true) : undefined
    this.commitments.put(handle, commitments, from, leaf_index)
  }

  /** Sets the commitment and blinding computed by the hashing worker. */
  reveal(note: Note, commitment: Uint8Array, blinding: Uint8Array): void {
    const { bytes } = note.chunk
    bytes.set(blinding, note.at(row.BLINDING_AT))
    bytes[note.at(row.FLAGS_AT)]! |= row.HAS_BLINDING
    this.commitments.put(note.handle, commitment, 0)
  }

  /** Records that the commitment of a note is a finalized leaf. */
  land(note: Note, leaf_index: number): void {
    note.at(0)
    this.commitments.land(note.handle, leaf_index)
  }

  /**
   * Makes a note known.
   * @throws Error when it has no commitment, or when another note of this commitment is known
   */
  register(note: Note): void {
    const at = note.at(row.FLAGS_AT)
    const { bytes } = note.chunk
    if ((bytes[at]! & row.HAS_COMMITMENT) === 0) throw new Error('a note is not hashed yet')
    this.table.add(note.handle)
    this.links.append(this.list, note.handle)
    bytes[at]! |= row.KNOWN
    this.size++
  }

  /** Removes a note from the known ones; it stays alive while it is held. */
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

  /** The same by the handle of a live note. */
  dropAt(handle: number): void {
    this.count(handle, -1)
    this.freeUnused(handle)
  }

  /** Number of holds on a note. */
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

  /** Frees a note that is neither known nor held; only the life counter of its row stays. */
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
