/** The little that stays of an order that ended. */
import type { CancelReason, OrderStatus } from '../../protocol/wire'

/** Enough to answer resends and late cancels. Ids and digest in hex. */
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
