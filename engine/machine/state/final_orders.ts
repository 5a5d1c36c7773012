/** Stores closed orders by id, oldest first, as rows of bytes: as objects, millions of them would be most of the heap. */

import type { ByteReader, ByteWriter } from '../../../protocol/byte_stream'
import { copyBytes } from '../../../protocol/bytes'
import type { EventSeq, SlotNumber } from '../../../protocol/units'
import type { CancelReason, OrderStatus } from '../../../protocol/wire/trading'
import { type HashSeed, IdTable } from '../../memory/id_table'
import { type Chunk, newChunk } from '../../memory/rows'
import type { TradingKey } from './account'
import { ID_BYTES, IDENTITY_BYTES } from './order_row'

/** The record of a closed order, enough to answer resends and late cancels. Ids in hex. */
export type FinalOrder = {
  readonly order_id: string
  readonly account_id: string
  readonly trading_key: string
  readonly digest: Uint8Array
  readonly status: Extract<OrderStatus, 'filled' | 'cancelled' | 'expired'>
  readonly reason: CancelReason | undefined
  readonly arrival_slot: SlotNumber
  readonly expiry_slot: SlotNumber
  readonly replaces: string | undefined
  /** Event number of its `order.accepted`. */
  readonly seq: EventSeq
  readonly final_unix_ms: number
}

/** A row has the same layout in memory and in a snapshot: little-endian, unused bytes zero. */
export const ROW_BYTES = 104
const STATUSES = ['filled', 'cancelled', 'expired'] as const
export const REASONS = [
  'by_owner',
  'cancel_all',
  'disconnect',
  'deadman',
  'ioc_remainder',
  'fok_unfilled',
  'replaced',
  'note_exited',
  'instrument_closed',
  'vault_frozen',
  'rebound',
] as const

const DIGEST_AT = 16
const REPLACES_AT = 48
const KEY_AT = 64
const STATUS_AT = 68
/** 0 = none, else 1 + the index in `REASONS`. */
const REASON_AT = 69
const REPLACES_FLAG_AT = 70
const ARRIVAL_AT = 72
const EXPIRY_AT = 80
const SEQ_AT = 88
const FINAL_MS_AT = 96

/** The row without its identity. The index of the key implies the names of key and account. */
type FinalFacts = Pick<
  FinalOrder,
  'status' | 'reason' | 'arrival_slot' | 'expiry_slot' | 'seq' | 'final_unix_ms'
> & {
  key: number
  /** Whether the identity contains the id of a replaced order. */
  replaces: boolean
}

/** The row at `at` must be all zeros except for the identity. */
function writeRow({ bytes, view }: Chunk, at: number, final: FinalFacts): void {
  bytes[at + REPLACES_FLAG_AT] = final.replaces ? 1 : 0
  view.setUint32(at + KEY_AT, final.key, true)
  bytes[at + STATUS_AT] = STATUSES.indexOf(final.status)
  bytes[at + REASON_AT] = final.reason === undefined ? 0 : 1 + placeOf(final.reason)
  view.setFloat64(at + ARRIVAL_AT, final.arrival_slot, true)
  view.setFloat64(at + EXPIRY_AT, final.expiry_slot, true)
  view.setFloat64(at + SEQ_AT, final.seq, true)
  view.setFloat64(at + FINAL_MS_AT, final.final_unix_ms, true)
}

function readRow(
  { bytes, view }: Chunk,
  at: number,
): Omit<FinalOrder, 'account_id' | 'trading_key'> & { key: number } {
  const reason = bytes[at + REASON_AT]!
  return {
    order_id: bytes.slice(at, at + 16).toHex(),
    key: view.getUint32(at + KEY_AT, true),
    digest: bytes.slice(at + DIGEST_AT, at + DIGEST_AT + 32),
    status: STATUSES[bytes[at + STATUS_AT]!]!,
    reason: reason === 0 ? undefined : REASONS[reason - 1]!,
    arrival_slot: view.getFloat64(at + ARRIVAL_AT, true),
    expiry_slot: expiryOf(view, at),
    replaces:
      bytes[at + REPLACES_FLAG_AT] === 1
        ? bytes.slice(at + REPLACES_AT, at + REPLACES_AT + 16).toHex()
        : undefined,
    seq: view.getFloat64(at + SEQ_AT, true),
    final_unix_ms: finalTimeOf(view, at),
  }
}

const expiryOf = (view: DataView, at: number): number => view.getFloat64(at + EXPIRY_AT, true)
const finalTimeOf = (view: DataView, at: number): number => view.getFloat64(at + FINAL_MS_AT, true)

function placeOf(reason: (typeof REASONS)[number]): number {
  const place = REASONS.indexOf(reason)
  if (place === -1) throw new Error('a reason without a place in the row')
  return place
}

/** Rows are in blocks, so that growth copies nothing and the memory of dropped rows is freed. */
const BLOCK_ROWS = 4096

/** About 120 bytes per order, including its entry in the id table. */
export class FinalOrders {
  private blocks: Chunk[] = []
  /** Numbers of the first row in the first block, of the oldest order, and of the next order. Numbers only grow. */
  private base = 0
  private first = 0
  private next = 0
  private readonly table: IdTable

  /** @param keys by index, which is how rows refer to them */
  constructor(
    private readonly keys: readonly TradingKey[],
    seed: HashSeed,
  ) {
    const ids = {
      bytesOf: (number: number) => this.blockOf(number).bytes,
      placeOf: (number: number) => this.rowAt(number),
    }
    this.table = new IdTable(ids, seed, ID_BYTES, () => this.first)
  }

  get size(): number {
    return this.next - this.first
  }

  /**
   * @param live where the identity of the live order is
   * @throws Error for an id that is stored already
   */
  add(live: { bytes: Uint8Array; at: number }, final: FinalFacts): void {
    const chunk = this.room()
    const at = this.rowAt(this.next)
    copyBytes(live.bytes, live.at, chunk.bytes, at, IDENTITY_BYTES)
    writeRow(chunk, at, final)
    this.table.add(this.next++)
  }

  /** @param order_id 16 bytes */
  find(order_id: Uint8Array): FinalOrder | undefined {
    const number = this.table.find(order_id)
    return number === undefined ? undefined : this.read(number)
  }

  oldest(): { expiry_slot: SlotNumber; final_unix_ms: number } | undefined {
    if (this.size === 0) return undefined
    const { view } = this.blockOf(this.first)
    const at = this.rowAt(this.first)
    return { expiry_slot: expiryOf(view, at), final_unix_ms: finalTimeOf(view, at) }
  }

  dropOldest(): void {
    if (this.size === 0) return
    this.table.remove(this.first)
    this.first++
    if (this.first - this.base < BLOCK_ROWS) return
    this.blocks.shift()
    this.base += BLOCK_ROWS
  }

  /** Oldest first. */
  *values(): Generator<FinalOrder> {
    for (let number = this.first; number < this.next; number++) yield this.read(number)
  }

  /** Yields after each block of rows. */
  *encode(to: ByteWriter): Generator<void> {
    to.uint(this.size)
    for (let number = this.first; number < this.next; ) {
      const count = Math.min(this.next - number, BLOCK_ROWS - ((number - this.base) % BLOCK_ROWS))
      const at = this.rowAt(number)
      yield to.fixed(this.blockOf(number).bytes.subarray(at, at + count * ROW_BYTES), count * ROW_BYTES)
      number += count
    }
  }

  /** Appends the output of `encode`. */
  decode(from: ByteReader): void {
    for (let count = from.uint(); count > 0; count--) {
      this.room().bytes.set(from.fixed(ROW_BYTES), this.rowAt(this.next))
      this.table.add(this.next++)
    }
  }

  /** The block of the next row. */
  private room(): Chunk {
    if (this.next - this.base === this.blocks.length * BLOCK_ROWS) {
      this.blocks.push(newChunk(BLOCK_ROWS * ROW_BYTES))
    }
    return this.blockOf(this.next)
  }

  private blockOf(number: number): Chunk {
    return this.blocks[Math.floor((number - this.base) / BLOCK_ROWS)]!
  }

  private rowAt(number: number): number {
    return ((number - this.base) % BLOCK_ROWS) * ROW_BYTES
  }

  private read(number: number): FinalOrder {
    const { key: index, ...facts } = readRow(this.blockOf(number), this.rowAt(number))
    const key = this.keys[index]!
    return { ...facts, account_id: key.account.account_id, trading_key: key.text }
  }
}
