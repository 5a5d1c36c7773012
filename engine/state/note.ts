/** Notes the engine can spend: deposits it was shown the opening of, and outputs it created itself. */
import type { TradingKey } from './account'
import type { Chunk } from './row_memory'

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

/** The row of a note, little-endian. An owner is 1 + the index of its key, or 0 for one that is no key of the venue's. */
export const COMMITMENT_AT = 0
export const BLINDING_AT = 32
export const NULLIFIER_AT = 64
export const AMOUNT_AT = 96
export const SPENT_IN_AT = 104
export const LEAF_INDEX_AT = 112
export const OWNER_AT = 116
export const LINKS_AT = 120
export const HOLDS_AT = 128
export const MINT_AT = 132
/** Counts the notes that lay in this row, so that a reference to an earlier one is told apart. */
export const LIFE_AT = 134
export const STATUS_AT = 136
export const FLAGS_AT = 137
export const NOTE_BYTES = 140

export const HAS_COMMITMENT = 1
export const HAS_NULLIFIER = 2
export const HAS_LEAF_INDEX = 4
/** In the table of known notes. */
export const KNOWN = 8
export const HAS_BLINDING = 16

/** Names owners by what a row says of them. */
export type Owners = { readonly keys: readonly TradingKey[]; readonly others: Map<number, string> }

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
    private readonly owners: Owners,
  ) {
    this.life = chunk.view.getUint16(place + LIFE_AT, true)
  }

  is(other: Note | undefined): boolean {
    return other !== undefined && other.handle === this.handle && other.life === this.life
  }

  get owner(): string {
    const owner = this.chunk.view.getUint32(this.at(OWNER_AT), true)
    return owner === 0 ? this.owners.others.get(this.handle)! : this.owners.keys[owner - 1]!.text
  }

  get mint(): number {
    return this.chunk.view.getUint16(this.at(MINT_AT), true)
  }

  get amount(): bigint {
    return this.chunk.view.getBigUint64(this.at(AMOUNT_AT), true)
  }

  get status(): NoteStatus {
    return NOTE_STATUSES[this.chunk.bytes[this.at(STATUS_AT)]!]!
  }

  set status(status: NoteStatus) {
    this.chunk.bytes[this.at(STATUS_AT)] = NOTE_STATUSES.indexOf(status)
  }

  /** Hex. */
  get commitment(): string | undefined {
    return this.commitment_bytes?.toHex()
  }

  /** A copy, as are the other bytes. */
  get commitment_bytes(): Uint8Array | undefined {
    return this.part(COMMITMENT_AT, HAS_COMMITMENT)
  }

  get blinding(): Uint8Array | undefined {
    return this.part(BLINDING_AT, HAS_BLINDING)
  }

  /** Hex. */
  get nullifier(): string | undefined {
    return this.nullifier_bytes?.toHex()
  }

  get nullifier_bytes(): Uint8Array | undefined {
    return this.part(NULLIFIER_AT, HAS_NULLIFIER)
  }

  setNullifier(nullifier: Uint8Array): void {
    this.chunk.bytes.set(nullifier, this.at(NULLIFIER_AT))
    this.chunk.bytes[this.place + FLAGS_AT]! |= HAS_NULLIFIER
  }

  get leaf_index(): number | undefined {
    if (!this.flag(HAS_LEAF_INDEX)) return undefined
    return this.chunk.view.getUint32(this.place + LEAF_INDEX_AT, true)
  }

  /** Settlement batch that spends it, 0 = none. */
  get spent_in(): number {
    return this.chunk.view.getFloat64(this.at(SPENT_IN_AT), true)
  }

  set spent_in(batch_id: number) {
    this.chunk.view.setFloat64(this.at(SPENT_IN_AT), batch_id, true)
  }

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

  /** Where a field of the row lies in its chunk. */
  at(offset: number): number {
    if (this.chunk.view.getUint16(this.place + LIFE_AT, true) !== this.life)
      throw new Error('a note is gone that something still refers to')
    return this.place + offset
  }
}
