/** Makes a live order final: out of the book and every index, its note free, its end announced. */
import type { CancelReason, EventKind } from '../../protocol/wire'
import { removeExposure } from './check_self_cross'
import type { Effects } from './effects'
import type { FinalOrder } from './final_order'
import { releaseNote } from './lock_note'
import type { Order } from './order'
import { IDENTITY_BYTES } from './order_row'
import { orderView } from './order_view'
import type { State } from './state'

const IDENTITY = new Uint8Array(IDENTITY_BYTES)

type Ending = {
  status: FinalOrder['status']
  reason?: CancelReason
  /** Id of the order that takes its place. */
  replaced_by?: string
}

/** Returns the event number of the end. What a fill consumed whole has left the book already. */
export function endOrder(state: State, fx: Effects, order: Order, ending: Ending): number {
  const { instrument, key } = order
  const { status, reason, replaced_by } = ending
  removeExposure(order)
  key.account.live -= 1
  instrument.live -= 1
  releaseNote(order.collateral)
  order.readIdentity(IDENTITY)
  state.finals.add(
    { bytes: IDENTITY, at: 0 },
    {
      key: key.index,
      status,
      reason,
      arrival_slot: order.arrival_slot,
      expiry_slot: order.expiry_slot,
      replaces: order.has_replaced,
      seq: order.seq,
      final_unix_ms: state.unix_ms,
    },
  )
  const kind: EventKind = reason === 'replaced' ? 'order.replaced' : `order.${status}`
  const seq = fx.emit(key.account, kind, (seq) => orderView(order, { seq, status, reason, replaced_by }))
  // What the book keeps of the order is read up to here; a fill that took the last lots has given its place back before.
  const rests = order.remaining > 0
  const { handle } = order
  state.orders.remove(order)
  if (rests) instrument.book.remove(handle)
  return seq
}

/** Cancels several orders for one reason. */
export function cancelOrders(
  state: State,
  fx: Effects,
  orders: Iterable<Order>,
  reason: CancelReason,
): string[] {
  const cancelled: string[] = []
  for (const order of [...orders]) {
    cancelled.push(order.order_id)
    endOrder(state, fx, order, { status: 'cancelled', reason })
  }
  return cancelled
}
