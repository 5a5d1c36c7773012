/** Defines the row of a note and references to it, and stores all notes, found by commitment. */
import { encodeBase58 } from '../../../protocol/base58'
import { copyBytes } from '../../../protocol/bytes'
import type { Amount } from '../../../protocol/units'
import { type HashSeed, IdTable } from '../../memory/id_table'
import { type Chunk, HandleLinks, newChunk, newList, RowSlab, readU48, writeU48 } from '../../memory/rows'
import { keyOf, type TradingKey } from './account'
import type { Reshape, SettlementBatch, Withdrawal } from './batch'
import type { FillRecord } from './order'
import type { State } from './state'

export const BLINDING_AT = 0
export const COMMITMENT_AT = 32
const AMOUNT_AT = 64
/** 48 bits. */
const SPENT_IN_AT = 72
const MINT_AT = 78
/** The leaf index that the note was opened with. */
export const LEAF_AT = 80
/** 1 + the index of its key, or 0 for an owner that is not a trading key of the venue. */
const OWNER_AT = 84
const LINKS_AT = 88
const HOLDS_AT = 96
/** Counts the notes this row has held, so that a stale reference is detected. */
const LIFE_AT = 100
const STATUS_AT = 102
export const FLAGS_AT = 103
const NOTE_BYTES = 104

export const HAS_COMMITMENT = 1
export const HAS_BLINDING = 2
/** The note was opened at, or paid out as, a leaf of known index. */
export const HAS_LEAF_INDEX = 4
/** In the table of known notes. */
const KNOWN = 8
/** The commitment is a finalized leaf. */
const LANDED = 16

/**
 * `free`: backs no command. `in_use`: locked by a live order, withdrawal or reshape. `spent`: an input of a settlement
 * batch. `exiting`: an exit request for it is on chain.
 */
type NoteStatus = (typeof NOTE_STATUSES)[number]
export const NOTE_STATUSES = ['free', 'in_use', 'spent', 'exiting'] as const

/** The fields of a new note; commitment and blinding are 32 bytes. The nullifier follows from them. */
export type NoteFacts = {
  /** The owning trading key. */
  owner: Uint8Array
  /** The same key, to save a lookup. */
  key?: TradingKey | undefined
  /** Index of the mint in `State.mints`. */
  mint: number
  amount: Amount
  status: NoteStatus
  /** Undefined while the batch that creates the note is not hashed. */
  commitment?: Uint8Array
  blinding?: Uint8Array
  /** Set for notes in deposit form and opened notes; the cited known state must contain the leaf. */
  leaf_index?: number
  /** The commitment is a finalized leaf already. */
  landed?: boolean
}

/** The objects that rows refer to by number. */
export type NoteContext = {
  readonly keys: readonly TradingKey[]
  /** By handle: owners that are not trading keys of the venue. */
  readonly others: Map<number, Uint8Array>
}

/**
 * A reference to the row of a note. One note may have several references, so compare them with `is`. To store a reference
 * beyond the current command, hold the note (`Notes.hold`). Members throw once the note is freed.
 */
export class Note {
  private readonly life: number

  constructor(
    readonly handle: number,
    readonly chunk: Chunk,
    private readonly place: number,
    private readonly context: NoteContext,
  ) {
    this.life = chunk.view.getUint16(place + LIFE_AT, true)
  }

  is(other: Note | undefined): boolean {
    return other !== undefined && other.handle === this.handle && other.life === this.life
  }

  get owner(): Uint8Array {
    return this.key?.bytes ?? this.context.others.get(this.handle)!
  }

  /** base58. */
  get owner_text(): string {
    return this.key?.text ?? encodeBase58(this.owner)
  }

  private get key(): TradingKey | undefined {
    return this.context.keys[this.chunk.view.getUint32(this.at(OWNER_AT), true) - 1]
  }

  get mint(): number {
    return this.chunk.view.getUint16(this.at(MINT_AT), true)
  }

  get amount(): Amount {
    return this.chunk.view.getBigUint64(this.at(AMOUNT_AT), true)
  }

  get status(): NoteStatus {
    return NOTE_STATUSES[this.chunk.bytes[this.at(STATUS_AT)]!]!
  }

  set status(status: NoteStatus) {
    this.chunk.bytes[this.at(STATUS_AT)] = NOTE_STATUSES.indexOf(status)
  }

  /** A copy, as for the other byte fields. */
  get commitment(): Uint8Array | undefined {
    return this.part(COMMITMENT_AT, HAS_COMMITMENT)
  }

  get blinding(): Uint8Array | undefined {
    return this.part(BLINDING_AT, HAS_BLINDING)
  }

  get leaf_index(): number | undefined {
    if (!this.flag(HAS_LEAF_INDEX)) return undefined
    return this.chunk.view.getUint32(this.place + LEAF_AT, true)
  }

  /** Whether the commitment is a finalized leaf. */
  get landed(): boolean {
    return this.flag(LANDED)
  }

  land(): void {
    this.chunk.bytes[this.at(FLAGS_AT)]! |= LANDED
  }

  /** Id of the settlement batch that spends the note, 0 = none. */
  get spent_in(): number {
    return readU48(this.chunk.view, this.at(SPENT_IN_AT))
  }

  set spent_in(batch_id: number) {
    writeU48(this.chunk.view, this.at(SPENT_IN_AT), batch_id)
  }

  /** Whether the note is in the table of known notes. */
  get known(): boolean {
    return this.flag(KNOWN)
  }

  private flag(flag: number): boolean {
    return (this.chunk.bytes[this.at(FLAGS_AT)]! & flag) !== 0
  }

  private part(offset: number, flag: number): Uint8Array | undefined {
    if (!this.flag(flag)) return undefined
    const at = this.place + offset
    return this.chunk.bytes.slice(at, at + 32)
  }

  /** Offset of a field of the row in its chunk. */
  at(offset: number): number {
    if (this.chunk.view.getUint16(this.place + LIFE_AT, true) !== this.life)
      throw new Error('a note is gone that something still refers to')
    return this.place + offset
  }
}

export function notesOfFills(fills: readonly FillRecord[]): Note[] {
  return fills.flatMap(({ proceeds, change }) => [proceeds, change].filter((note) => note !== undefined))
}

export function notesOfPayment(payment: Withdrawal | Reshape): Note[] {
  if (payment.kind === 'reshape') return [...payment.inputs, ...payment.outputs]
  return payment.change === undefined ? [payment.note] : [payment.note, payment.change]
}

export function holdFill(notes: Notes, { proceeds, change }: FillRecord): void {
  if (proceeds !== undefined) notes.hold(proceeds)
  if (change !== undefined) notes.hold(change)
}

export function dropFill(notes: Notes, { proceeds, change }: FillRecord): void {
  if (proceeds !== undefined) notes.drop(proceeds)
  if (change !== undefined) notes.drop(change)
}

/** Includes the notes of its fills, which are among its outputs. */
export function notesOfBatch(batch: SettlementBatch): Note[] {
  return [...batch.inputs, ...batch.outputs.map(({ note }) => note)]
}

export function holdAll(notes: Notes, held: readonly Note[]): void {
  for (const note of held) notes.hold(note)
}

export function dropAll(notes: Notes, held: readonly Note[]): void {
  for (const note of held) notes.drop(note)
}

/** The commitment of a spent note, then the index of its key: u32. */
export const RETIRED_BYTES = 36
const RETIRED = newChunk(RETIRED_BYTES)

/** Index of the key in a row of `State.retired`. */
export function retiredOwner(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(32, true)
}

/** Forgets a note whose spending is final, but records the owner, so that a reuse is rejected with the right code. */
export function retireNote(state: State, note: Note): void {
  const owner = keyOf(state, note.owner)
  // A note spent by an exit may belong to a key that never traded here.
  if (owner !== undefined) {
    RETIRED.bytes.set(note.commitment!)
    RETIRED.view.setUint32(32, owner.index, true)
    state.retired.append(RETIRED.bytes)
  }
  state.notes.forget(note)
}

const WIDTH = 32

/**
 * All notes, about 115 bytes each. A note lives while it is known or held. Holders are live orders
 * (collateral and notes of fills), settlement batches (inputs and outputs), readable payments and open exits.
 */
export class Notes {
  private readonly rows = new RowSlab(NOTE_BYTES)
  private readonly table: IdTable
  private readonly list = newList()
  private readonly links = new HandleLinks(this.rows, LINKS_AT)
  private readonly context: NoteContext
  /** Known notes. */
  size = 0

  constructor(
    private readonly state: Pick<State, 'key_index' | 'key_list'>,
    seed: HashSeed,
  ) {
    const ids = {
      bytesOf: (handle: number) => this.rows.bytesOf(handle),
      placeOf: (handle: number) => this.rows.placeOf(handle) + COMMITMENT_AT,
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
    view.setUint32(at + OWNER_AT, owner === undefined ? 0 : owner.index + 1, true)
    view.setUint16(at + MINT_AT, facts.mint, true)
    view.setBigUint64(at + AMOUNT_AT, facts.amount, true)
    bytes[at + STATUS_AT] = NOTE_STATUSES.indexOf(facts.status)
    const { commitment, blinding, leaf_index } = facts
    let flags = 0
    if (blinding !== undefined) flags |= HAS_BLINDING
    if (blinding !== undefined) copyBytes(blinding, 0, bytes, at + BLINDING_AT, 32)
    if (commitment !== undefined) flags |= HAS_COMMITMENT
    if (commitment !== undefined) copyBytes(commitment, 0, bytes, at + COMMITMENT_AT, WIDTH)
    if (leaf_index !== undefined) flags |= HAS_LEAF_INDEX
    view.setUint32(at + LEAF_AT, leaf_index ?? 0, true)
    bytes[at + FLAGS_AT] = facts.landed === true ? flags | LANDED : flags
    return this.at(handle)
  }

  /** Sets the commitment and blinding computed by the hashing worker. */
  reveal(note: Note, commitment: Uint8Array, blinding: Uint8Array): void {
    const { bytes } = note.chunk
    bytes.set(blinding, note.at(BLINDING_AT))
    bytes.set(commitment, note.at(COMMITMENT_AT))
    bytes[note.at(FLAGS_AT)]! |= HAS_BLINDING | HAS_COMMITMENT
  }

  /**
   * Makes a note known.
   * @throws Error when it has no commitment, or when another note of this commitment is known
   */
  register(note: Note): void {
    const at = note.at(FLAGS_AT)
    const { bytes } = note.chunk
    if ((bytes[at]! & HAS_COMMITMENT) === 0) throw new Error('a note is not hashed yet')
    this.table.add(note.handle)
    this.links.append(this.list, note.handle)
    bytes[at]! |= KNOWN
    this.size++
  }

  /** Removes a note from the table; its row is kept while something holds it. */
  forget(note: Note): void {
    const at = note.at(FLAGS_AT)
    this.table.remove(note.handle)
    this.links.remove(this.list, note.handle)
    note.chunk.bytes[at]! &= ~KNOWN
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
    return note.chunk.view.getUint32(note.at(HOLDS_AT), true)
  }

  private count(handle: number, change: number): void {
    const { view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle) + HOLDS_AT
    const holds = view.getUint32(at, true) + change
    if (holds < 0) throw new Error('a note is not held')
    view.setUint32(at, holds, true)
  }

  /** Frees a note that is neither known nor held; only the life counter of its row stays. */
  private freeUnused(handle: number): void {
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    if ((bytes[at + FLAGS_AT]! & KNOWN) !== 0 || view.getUint32(at + HOLDS_AT, true) > 0) return
    const life = view.getUint16(at + LIFE_AT, true)
    bytes.fill(0, at, at + NOTE_BYTES)
    view.setUint16(at + LIFE_AT, life + 1, true)
    this.context.others.delete(handle)
    this.rows.give(handle)
  }
}
