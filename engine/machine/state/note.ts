/** Notes the engine can spend, their locks, and their end. */

import type { ByteWriter } from '../../memory/byte_stream'
import { type Chunk, readU48, writeU48 } from '../../memory/rows'
import type { TradingKey } from './account'
import type { Reshape, SettlementBatch, Withdrawal } from './batch'
import * as row from './note_row'
import type { Commitments, Notes } from './notes'
import type { FillRecord } from './order'
import type { State } from './state'

// Notes the engine can spend: deposits it was shown the opening of, and outputs it created itself.

/**
 * `free`: backs nothing. `in_use`: locked by a live order, withdrawal or reshape. `spent`: an input of a settlement
 * batch. `exiting`: the chain saw an exit request for it.
 */
export type NoteStatus = (typeof NOTE_STATUSES)[number]
export const NOTE_STATUSES = ['free', 'in_use', 'spent', 'exiting'] as const

/** What a note is made of; commitment, blinding and nullifier are 32 bytes. No settlement batch spends it yet. */
export type NoteFacts = {
  /** The owning trading key, base58; and as the venue knows it, where that is at hand. */
  owner: string
  key?: TradingKey
  /** Index of the mint in `State.mints`. */
  mint: number
  amount: bigint
  status: NoteStatus
  /** Undefined while the batch that creates the note is not hashed. */
  commitment?: Uint8Array
  blinding?: Uint8Array
  /** Known for opened notes from the start, for others once they are spent. */
  nullifier?: Uint8Array
  /** Leaf index if the note came in deposit form or was opened; it must be covered by the cited known state. */
  leaf_index?: number
}

/** What rows name by number. */
export type NoteContext = {
  readonly keys: readonly TradingKey[]
  /** By handle: owners that are no key of the venue's. */
  readonly others: Map<number, string>
  readonly commitments: Commitments
}

/**
 * A reference to the row of a note; there may be several to one, so they are compared with `is`. Whoever keeps one beyond
 * the command at hand holds the note (`Notes.hold`). @throws Error when the note it refers to is gone.
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

  get owner(): string {
    const owner = this.chunk.view.getUint32(this.at(row.OWNER_AT), true)
    return owner === 0 ? this.context.others.get(this.handle)! : this.context.keys[owner - 1]!.text
  }

  get mint(): number {
    return this.chunk.view.getUint16(this.at(row.MINT_AT), true)
  }

  get amount(): bigint {
    return this.chunk.view.getBigUint64(this.at(row.AMOUNT_AT), true)
  }

  get status(): NoteStatus {
    return NOTE_STATUSES[this.chunk.bytes[this.at(row.STATUS_AT)]!]!
  }

  set status(status: NoteStatus) {
    this.chunk.bytes[this.at(row.STATUS_AT)] = NOTE_STATUSES.indexOf(status)
  }

  /** Hex. */
  get commitment(): string | undefined {
    return this.commitment_bytes?.toHex()
  }

  /** A copy, as are the other bytes. */
  get commitment_bytes(): Uint8Array | undefined {
    if (!this.flag(row.HAS_COMMITMENT)) return undefined
    const { commitments } = this.context
    const at = commitments.placeOf(this.handle)
    return commitments.bytesOf(this.handle).slice(at, at + 32)
  }

  /** A byte that says whether there is one, then the commitment. */
  encodeCommitment(to: ByteWriter): void {
    const has = this.flag(row.HAS_COMMITMENT)
    to.byte(has ? 1 : 0)
    const { commitments } = this.context
    if (has) to.copy(commitments.bytesOf(this.handle), commitments.placeOf(this.handle), 32)
  }

  get blinding(): Uint8Array | undefined {
    return this.part(row.BLINDING_AT, row.HAS_BLINDING)
  }

  /** Hex. */
  get nullifier(): string | undefined {
    return this.nullifier_bytes?.toHex()
  }

  get nullifier_bytes(): Uint8Array | undefined {
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

  /** Settlement batch that spends it, 0 = none. */
  get spent_in(): number {
    return readU48(this.chunk.view, this.at(row.SPENT_IN_AT))
  }

  set spent_in(batch_id: number) {
    writeU48(this.chunk.view, this.at(row.SPENT_IN_AT), batch_id)
  }

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

  /** Where a field of the row lies in its chunk. */
  at(offset: number): number {
    if (this.chunk.view.getUint16(this.place + row.LIFE_AT, true) !== this.life)
      throw new Error('a note is gone that something still refers to')
    return this.place + offset
  }
}

// Which notes are held by what refers to them beyond a command.

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

/** The notes of its fills are among its outputs. */
export function notesOfBatch(batch: SettlementBatch): Note[] {
  return [...batch.inputs, ...batch.outputs.map(({ note }) => note)]
}

export function holdAll(notes: Notes, held: readonly Note[]): void {
  for (const note of held) notes.hold(note)
}

export function dropAll(notes: Notes, held: readonly Note[]): void {
  for (const note of held) notes.drop(note)
}

// Lets go of a note whose spending is final; of it stays who owned it, so that using it again is told apart.

export function retireNote(state: State, note: Note, leaf_index: number): void {
  const owner = state.keys.get(note.owner)
  if (leaf_index >= state.spent_owners.length) {
    const larger = new Uint32Array(Math.max(leaf_index + 1, state.spent_owners.length * 2))
    larger.set(state.spent_owners)
    state.spent_owners = larger
  }
  // A note that only an exit ever spent may belong to a key that never traded here.
  state.spent_owners[leaf_index] = owner === undefined ? 0 : owner.index + 1
  state.notes.forget(note)
}
