/** Defines references to the notes the engine can spend, deposits with a known opening and its own outputs, and holds on them. */
import { encodeBase58 } from '../../../protocol/base58'
import type { ByteWriter } from '../../../protocol/byte_stream'
import type { Amount } from '../../../protocol/units'
import { type Chunk, readU48, writeU48 } from '../../memory/rows'
import { keyOf, type TradingKey } from './account'
import type { Reshape, SettlementBatch, Withdrawal } from './batch'
import * as row from './note_row'
import type { Commitments, Notes } from './notes'
import type { FillRecord } from './order'
import type { State } from './state'

/**
 * `free`: backs no command. `in_use`: locked by a live order, withdrawal or reshape. `spent`: an input of a settlement
 * batch. `exiting`: an exit request for it is on chain.
 */
type NoteStatus = (typeof NOTE_STATUSES)[number]
export const NOTE_STATUSES = ['free', 'in_use', 'spent', 'exiting'] as const

/** The fields of a new note; commitment, blinding and nullifier are 32 bytes. */
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
  /** Known from the start for opened notes, for others once they are spent. */
  nullifier?: Uint8Array
  /** Set for notes in deposit form and opened notes; the cited known state must contain the leaf. */
  leaf_index?: number
}

/** The objects that rows refer to by number. */
export type NoteContext = {
  readonly keys: readonly TradingKey[]
  /** By handle: owners that are not trading keys of the venue. */
  readonly others: Map<number, Uint8Array>
  readonly commitments: Commitments
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
    if (!this.flag(row.HAS_COMMITMENT)) return undefined
    const { commitments } = this.context
    const at = commitments.placeOf(this.handle)
    return commitments.bytesOf(this.handle).slice(at, at + 32)
  }

  /** Writes a presence byte, then the commitment. */
  encodeCommitment(to: ByteWriter): void {
    const has = this.flag(row.HAS_COMMITMENT)
    to.byte(has ? 1 : 0)
    const { commitments } = this.context
    if (has) to.copy(commitments.bytesOf(this.handle), commitments.placeOf(this.handle), 32)
  }

  get blinding(): Uint8Array | undefined {
    return this.part(row.BLINDING_AT, row.HAS_BLINDING)
  }

  get nullifier(): Uint8Array | undefined {
    return this.part(row.NULLIFIER_AT, row.HAS_NULLIFIER)
  }

  setNullifier(nullifier: Uint8Array): void {
    this.chunk.bytes.set(nullifier, this.at(row.NULLIFIER_AT))
    this.chunk.bytes[this.place + row.FLAGS_AT]! |= row.HAS_NULLIFIER
  }

  get leaf_index(): number | undefined {
    this.at(0)
    return this.context.commitments.leafIndex(this.handle)
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

/** Forgets a note whose spending is final, but records the owner, so that a reuse is rejected with the right code. */
export function retireNote(state: State, note: Note, leaf_index: number): void {
  const owner = keyOf(state, note.owner)
  if (leaf_index >= state.spent_owners.length) {
    const larger = new Uint32Array(Math.max(leaf_index + 1, state.spent_owners.length * 2))
    larger.set(state.spent_owners)
    state.spent_owners = larger
  }
  // A note spent by an exit may belong to a key that never traded here.
  state.spent_owners[leaf_index] = owner === undefined ? 0 : owner.index + 1
  state.notes.forget(note)
}
