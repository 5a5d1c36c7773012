/** One part of an order in one settlement batch. */
import type { FillStage, Side } from '../../protocol/wire'
import type { Account } from './account'
import type { Note } from './note'

/** Amounts in wire units. */
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
  /** Undefined when the fee eats the proceeds. */
  readonly proceeds: Note | undefined
  readonly change: Note | undefined
  stage: FillStage
  /** base58, once signed bytes were sent. */
  signature: string | undefined
  /** Event number of its newest event; 0 before it is hashed. */
  seq: number
}
