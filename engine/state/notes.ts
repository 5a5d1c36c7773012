/** Owns the memory of all notes and the table of those that are known: about 150 bytes a note. */
import { copyBytes } from './copy_bytes'
import { HandleLinks, newList } from './handle_list'
import { IdTable } from './id_table'
import * as row from './note'
import { NOTE_STATUSES, Note, type NoteFacts, type Owners } from './note'
import { RowSlab } from './row_slab'
import type { State } from './state'

/**
 * A note lives while it is known or held. The holders are: a live order (its collateral and the notes of its fills), a
 * settlement batch (inputs and outputs), a payment that is readable, an open exit.
 */
export class Notes {
  private readonly rows = new RowSlab(row.NOTE_BYTES)
  private readonly table = new IdTable(this.rows, 32)
  private readonly list = newList()
  private readonly links = new HandleLinks(this.rows, row.LINKS_AT)
  private readonly owners: Owners
  /** Known notes. */
  size = 0

  constructor(private readonly state: Pick<State, 'keys' | 'key_list'>) {
    this.owners = { keys: state.key_list, others: new Map() }
  }

  /** Notes that live, known or not, and a bound above their handles. */
  get lives(): number {
    return this.rows.size
  }
  get end(): number {
    return this.rows.end
  }

  /** Makes room for so many known notes at once, where there are none. */
  reserve(count: number): void {
    this.table.reserve(count)
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
    return new Note(handle, this.rows.chunkOf(handle), this.rows.placeOf(handle), this.owners)
  }

  /** A new note, not known yet: the caller holds it or makes it known before its command ends. */
  create(facts: NoteFacts): Note {
    const handle = this.rows.take()
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    const owner = facts.key ?? this.state.keys.get(facts.owner)
    if (owner === undefined) this.owners.others.set(handle, facts.owner)
    view.setUint32(at + row.OWNER_AT, owner === undefined ? 0 : owner.index + 1, true)
    view.setUint16(at + row.MINT_AT, facts.mint, true)
    view.setBigUint64(at + row.AMOUNT_AT, facts.amount, true)
    bytes[at + row.STATUS_AT] = NOTE_STATUSES.indexOf(facts.status)
    const { commitment, blinding, nullifier, leaf_index } = facts
    let flags = 0
    if (commitment !== undefined) flags |= row.HAS_COMMITMENT
    if (blinding !== undefined) flags |= row.HAS_BLINDING
    if (nullifier !== undefined) flags |= row.HAS_NULLIFIER
    if (leaf_index !== undefined) flags |= row.HAS_LEAF_INDEX
    if (commitment !== undefined) copyBytes(commitment, 0, bytes, at + row.COMMITMENT_AT, 32)
    if (blinding !== undefined) copyBytes(blinding, 0, bytes, at + row.BLINDING_AT, 32)
    if (nullifier !== undefined) copyBytes(nullifier, 0, bytes, at + row.NULLIFIER_AT, 32)
    view.setUint32(at + row.LEAF_INDEX_AT, leaf_index ?? 0, true)
    bytes[at + row.FLAGS_AT] = flags
    return this.at(handle)
  }

  /** Gives a note what hashing found. */
  reveal(note: Note, commitment: Uint8Array, blinding: Uint8Array): void {
    const { bytes } = note.chunk
    bytes.set(commitment, note.at(row.COMMITMENT_AT))
    bytes.set(blinding, note.at(row.BLINDING_AT))
    bytes[note.at(row.FLAGS_AT)]! |= row.HAS_COMMITMENT | row.HAS_BLINDING
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
    const life = view.getUint16(at + row.LIFE_AT, true)
    bytes.fill(0, at, at + row.NOTE_BYTES)
    view.setUint16(at + row.LIFE_AT, life + 1, true)
    this.owners.others.delete(handle)
    this.rows.give(handle)
  }
}
