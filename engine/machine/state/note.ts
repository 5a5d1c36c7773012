/** Defines references to the notes the engine can spend, deposits with a known opening and its own outputs, and holds on them. */
import { encodeBase58 } from '../../../protocol/base58'
import type { Amount } from '../../../protocol/units'
import { type Chunk, newChunk, readU48, writeU48 } from '../../memory/rows'
import { keyOf, type TradingKey } from './account'
import type { Reshape, SettlementBatch, Withdrawal } from './batch'
import * as row from './note_row'
import type { Notes } from './notes'
import type { FillRecord } from './order'
import type { State } from './state'

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
    this.life = chunk.view.getUint16(place + row.LIFE_AT, true)
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
    return this.context.keys[this.chunk.view.getUint32(this.at(row.OWNER_AT), true) - 1]
  }

  get mint(): number {
    return this.chunk.view.getUint16(this.at(row.MINT_AT), true)
  }

  get amount(): Amount {
    return this.chunk.view.getBigUint64(this.at(row.AMOUNT_AT), true)
  }

  get status(): NoteStatus {
    return NOTE_STATUSES[this.chunk.bytes[this.at(row.STATUS_AT)]!]!
  }

  set status(status: NoteStatus) {
    this.chunk.bytes[this.at(row.STATUS_AT)] = NOTE_STATUSES.indexOf(status)
  }

  /** A copy, as for the other byte fields. */
  get commitment(): Uint8Array | undefined {
    return this.part(row.COMMITMENT_AT, row.HAS_COMMITMENT)
  }

  get blinding(): Uint8Array | undefined {
    return this.part(row.BLINDING_AT, row.HAS_BLINDING)
  }

  get leaf_index(): number | undefined {
    if (!this.flag(row.HAS_LEAF_INDEX)) return undefined
    return this.chunk.view.getUint32(this.place + row.LEAF_AT, true)
  }

  /** Whether the commitment is a finalized leaf. */
  get landed(): boolean {
    return this.flag(row.LANDED)
  }

  land(): void {
    this.chunk.bytes[this.at(row.FLAGS_AT)]! |= row.LANDED
  }

  /** Id of the settlement batch that spends the note, 0 = none. */
  get spent_in(): number {
    return readU48(this.chunk.view, this.at(row.SPENT_IN_AT))
  }

  set spent_in(batch_id: number) {
    writeU48(this.chunk.view, this.at(row.SPENT_IN_AT), batch_id)
  }

  /** Whether the note is in the table of known notes. */
  get known(): boolean {
    return this.flag(row.KNOWN)
  }

  private flag(flag: number): boolean {
    return (this.chunk.bytes[this.at(row.FLAGS_AT)]! & flag) !== 0
  }

  private part(offset: number, flag: number): Uint8Array | undefined {
    if (!this.flag(flag)) return undefined
    const at = this.place + offset
    return this.chunk.bytes.slice(at, at + 32)
  }

  /** Offset of a field of the row in its chunk. */
  at(offset: number): number {
    if (this.chunk.view.getUint16(this.place + row.LIFE_AT, true) !== this.life)
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
export function retiredOwner(row: Uint8Array): number {
  return new DataView(row.buffer, row.byteOffset).getUint32(32, true)
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
