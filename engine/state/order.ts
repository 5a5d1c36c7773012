/** Live orders, and the little that stays of final ones. */
import type { CancelReason, FillStage, OrderStatus, OrderType, Side } from '../../protocol/wire'
import type { Account, TradingKey } from './account'
import type { InstrumentState } from './instrument'
import type { Note } from './note'

/** An order that rests. Quantities in lots, prices in ticks. */
export type Order = {
  /** Hex. */
  readonly order_id: string
  readonly key: TradingKey
  readonly instrument: InstrumentState
  readonly side: Side
  readonly type: OrderType
  readonly lots: number
  readonly ticks: number
  readonly min_lots: number
  readonly expiry_slot: number
  readonly arrival_slot: number
  /** Number of the first auction it can take part in. */
  readonly arrival_batch: number
  readonly nonce: bigint
  /** 1 to 16 anchors of 32 bytes, concatenated. */
  readonly anchors: Uint8Array
  /** Hex; tells an identical resend from an id taken. */
  readonly digest: string
  /** Socket it came in on. */
  readonly origin: string | undefined
  readonly replaces: string | undefined
  /** Event number of its `order.accepted`. */
  readonly seq: number
  /** What remains to be filled. */
  remaining: number
  status: 'accepted' | 'partially_filled'
  /** The note that backs what remains. */
  collateral: Note
  cumulative_quote: bigint
  cumulative_fee: bigint
  /** Fills so far, hashed or not; index = fill index. */
  readonly fills: FillRecord[]
  /** Handle in the book. */
  handle: number
}

/** One part of an order in one settlement batch. Amounts in wire units. */
export type FillRecord = {
  readonly account: Account
  readonly order_id: string
  readonly fill_index: number
  readonly symbol: string
  readonly side: Side
  readonly price: bigint
  readonly amount: bigint
  readonly quote_amount: bigint
  readonly fee: bigint
  readonly batch: number
  readonly settlement_batch: number
  readonly anchor_index: number
  readonly slot: number
  /** Zero-valued when the fee eats the proceeds. */
  readonly proceeds: Note | undefined
  readonly change: Note | undefined
  stage: FillStage
  /** base58, once signed bytes were sent. */
  signature: string | undefined
  /** Event number of its newest event; 0 before it is hashed. */
  seq: number
}

/** What is kept of a final order: enough to answer resends and late cancels. */
export type FinalOrder = {
  readonly order_id: string
  readonly account_id: string
  readonly trading_key: string
  readonly digest: string
  readonly status: Extract<OrderStatus, 'filled' | 'cancelled' | 'expired'>
  readonly reason: CancelReason | undefined
  readonly arrival_slot: number
  readonly expiry_slot: number
  readonly replaces: string | undefined
  /** Event number of its `order.accepted`. */
  readonly seq: number
  readonly final_unix_ms: number
}
