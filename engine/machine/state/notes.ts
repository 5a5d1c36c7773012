/** Stores all notes and their commitments, and finds known notes by commitment. */
import { copyBytes } from '../../../protocol/bytes'
import { type HashSeed, IdTable } from '../../memory/id_table'
import { HandleLinks, newList, RowSlab } from '../../memory/rows'
import { keyOf } from './account'
import { NOTE_STATUSES, Note, type NoteContext, type NoteFacts } from './note'
import * as row from './note_row'
import type { State } from './state'

const WIDTH = 32

/**
 * All notes, about 115 bytes each. A note lives while it is known or held. Holders are live orders
 * (collateral and notes of fills), settlement batches (inputs and outputs), readable payments and open exits.
 */
export class Notes {
  private readonly rows = new RowSlab(row.NOTE_BYTES)
  private readonly table: IdTable
  private readonly list = newList()
  private readonly links = new HandleLinks(this.rows, row.LINKS_AT)
  private readonly context: NoteContext
  /** Known notes. */
  size = 0

  constructor(
    private readonly state: Pick<State, 'key_index' | 'key_list'>,
    seed: HashSeed,
  ) {
    const ids = {
      bytesOf: (handle: number) => this.rows.bytesOf(handle),
      placeOf: (handle: number) => this.rows.placeOf(handle) + row.COMMITMENT_AT,
    }
    this.table = new IdTable(ids, seed, WIDTH)
    this.context = { keys: state.key_list, others: new Map() }
  }

  /** Live notes, known or not. */
  get lives(): number {
    return this.rows.size
  }
  /** Above the handles of all notes. */
  get end(): number {
    return this.rows.end
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
    const { commitment, blinding, leaf_index } = facts
    let flags = 0
    if (blinding !== undefined) flags |= row.HAS_BLINDING
    if (blinding !== undefined) copyBytes(blinding, 0, bytes, at + row.BLINDING_AT, 32)
    if (commitment !== undefined) flags |= row.HAS_COMMITMENT
    if (commitment !== undefined) copyBytes(commitment, 0, bytes, at + row.COMMITMENT_AT, WIDTH)
    if (leaf_index !== undefined) flags |= row.HAS_LEAF_INDEX
    view.setUint32(at + row.LEAF_AT, leaf_index ?? 0, true)
    bytes[at + row.FLAGS_AT] = facts.landed === true ? flags | row.LANDED : flags
    return this.at(handle)
  }

  /** Sets the commitment and blinding computed by the hashing worker. */
  reveal(note: Note, commitment: Uint8Array, blinding: Uint8Array): void {
    const { bytes } = note.chunk
    bytes.set(blinding, note.at(row.BLINDING_AT))
    bytes.set(commitment, note.at(row.COMMITMENT_AT))
    bytes[note.at(row.FLAGS_AT)]! |= row.HAS_BLINDING | row.HAS_COMMITMENT
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

  /** Removes a note from the table; its row is kept while something holds it. */
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
    const life = view.getUint16(at + row.LIFE_AT, true)
    bytes.fill(0, at, at + row.NOTE_BYTES)
    view.setUint16(at + row.LIFE_AT, life + 1, true)
    this.context.others.delete(handle)
    this.rows.give(handle)
  }
}
