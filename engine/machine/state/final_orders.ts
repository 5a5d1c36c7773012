/** Stores closed orders by id, oldest first, as rows of bytes: as objects they would be most of the heap. */
import { copyBytes } from '../../../protocol/bytes'
import type { EventSeq, SlotNumber } from '../../../protocol/units'
import type { CancelReason, OrderStatus } from '../../../protocol/wire/trading'
import { MS_PER_DAY } from '../../limits'
import type { HashSeed } from '../../memory/id_table'
import { RowQueue } from '../../memory/row_queue'
import { type Chunk, newChunk } from '../../memory/rows'
import type { TradingKey } from './account'
import { ID_BYTES, IDENTITY_BYTES } from './order_row'
import type { State } from './state'

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

/** A row has the same layout in memory, in a snapshot and in a store: little-endian, unused bytes zero. */
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

/** Fills the part of an empty row behind the identity. */
function writeRow({ bytes, view }: Chunk, final: FinalFacts): void {
  bytes[REPLACES_FLAG_AT] = final.replaces ? 1 : 0
  view.setUint32(KEY_AT, final.key, true)
  bytes[STATUS_AT] = STATUSES.indexOf(final.status)
  bytes[REASON_AT] = final.reason === undefined ? 0 : 1 + placeOf(final.reason)
  view.setFloat64(ARRIVAL_AT, final.arrival_slot, true)
  view.setFloat64(EXPIRY_AT, final.expiry_slot, true)
  view.setFloat64(SEQ_AT, final.seq, true)
  view.setFloat64(FINAL_MS_AT, final.final_unix_ms, true)
}

function placeOf(reason: (typeof REASONS)[number]): number {
  const place = REASONS.indexOf(reason)
  if (place === -1) throw new Error('a reason without a place in the row')
  return place
}

/** A row that every closing order reuses. */
const ROW = newChunk(ROW_BYTES)

/** About 120 bytes per order, including its entry in the id table. */
export class FinalOrders {
  readonly rows: RowQueue

  /** @param keys by index, which is how rows refer to them */
  constructor(
    private readonly keys: readonly TradingKey[],
    seed: HashSeed,
  ) {
    this.rows = new RowQueue(ID_BYTES, ROW_BYTES, seed)
  }

  /** @param identity of the order (`order_row.ts`) */
  add(identity: Uint8Array, final: FinalFacts): void {
    ROW.bytes.fill(0)
    copyBytes(identity, 0, ROW.bytes, 0, IDENTITY_BYTES)
    writeRow(ROW, final)
    this.rows.append(ROW.bytes)
  }

  /** @param order_id 16 bytes */
  find(order_id: Uint8Array): FinalOrder | undefined {
    const number = this.rows.indexOf(order_id)
    return number === undefined ? undefined : this.read(this.rows.at(number))
  }

  /** Number of the first kept order that closed at this time or later; the newest one closed last. */
  since(unix_ms: number): number {
    let [from, to] = [this.rows.first, this.rows.size]
    while (from < to) {
      const middle = Math.floor((from + to) / 2)
      if (closedMs(this.rows.at(middle)) < unix_ms) from = middle + 1
      else to = middle
    }
    return from
  }

  read(row: Uint8Array): FinalOrder {
    const view = new DataView(row.buffer, row.byteOffset)
    const reason = row[REASON_AT]!
    const key = this.keys[view.getUint32(KEY_AT, true)]!
    return {
      order_id: row.subarray(0, ID_BYTES).toHex(),
      account_id: key.account.account_id,
      trading_key: key.text,
      digest: row.slice(DIGEST_AT, DIGEST_AT + 32),
      status: STATUSES[row[STATUS_AT]!]!,
      reason: reason === 0 ? undefined : REASONS[reason - 1]!,
      arrival_slot: view.getFloat64(ARRIVAL_AT, true),
      expiry_slot: view.getFloat64(EXPIRY_AT, true),
      replaces:
        row[REPLACES_FLAG_AT] === 1 ? row.subarray(REPLACES_AT, REPLACES_AT + ID_BYTES).toHex() : undefined,
      seq: view.getFloat64(SEQ_AT, true),
      final_unix_ms: view.getFloat64(FINAL_MS_AT, true),
    }
  }
}

const closedMs = (row: Uint8Array): number =>
  new DataView(row.buffer, row.byteOffset).getFloat64(FINAL_MS_AT, true)

/** Whether a row has outlived its body and the retention: its resend fails on its expiry (protocol.md "Order of checks"). */
export function isOutlived(
  row: Uint8Array,
  { settings, slot, unix_ms }: Pick<State, 'settings' | 'slot' | 'unix_ms'>,
): boolean {
  const view = new DataView(row.buffer, row.byteOffset)
  const retained_ms = unix_ms - (settings?.retention_days ?? 0) * MS_PER_DAY
  return view.getFloat64(EXPIRY_AT, true) < slot && closedMs(row) < retained_ms
}
