/** What a live order is made of. Quantities in lots, prices in ticks. */
import type { OrderType, Side } from '../../protocol/wire'
import type { TradingKey } from './account'
import type { FillRecord } from './fill_record'
import type { InstrumentState } from './instrument'
import type { Note } from './note'
import type { LIVE_STATUSES } from './order_row'

export type LiveStatus = (typeof LIVE_STATUSES)[number]

/** Bytes are copied where the order comes to lie. */
export type OrderFacts = {
  /** 16 bytes. */
  order_id: Uint8Array
  key: TradingKey
  instrument: InstrumentState
  side: Side
  type: OrderType
  lots: number
  ticks: number
  min_lots: number
  expiry_slot: number
  arrival_slot: number
  /** Number of the first auction it can take part in. */
  arrival_batch: number
  nonce: bigint
  /** 1 to 16 anchors of 32 bytes. */
  anchors: readonly Uint8Array[]
  /** 32 bytes; tells an identical resend from an id taken. */
  digest: Uint8Array
  /** Socket it came in on. */
  origin: string | undefined
  /** 16 bytes. */
  replaces: Uint8Array | undefined
  /** Event number of its `order.accepted`. */
  seq: number
  /** What remains to be filled. */
  remaining: number
  status: LiveStatus
  /** The note that backs what remains. */
  collateral: Note
  /** What it traded so far. */
  traded: Traded | undefined
}

/** In quote units, and fills so far, hashed or not; index = fill index. */
export type Traded = { cumulative_quote: bigint; cumulative_fee: bigint; readonly fills: FillRecord[] }
