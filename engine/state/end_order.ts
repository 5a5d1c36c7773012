/** Makes a live order final: out of the book and every index, its note free, its end announced. */
import type { CancelReason, EventKind } from '../../protocol/wire'
import { removeFromBucket } from './buckets'
import { removeExposure } from './check_self_cross'
import type { Effects } from './effects'
import { releaseNote } from './lock_note'
import { dropAll, notesOfFills } from './note_holders'
import type { FinalOrder, Order } from './order'
import { orderView } from './order_view'
import type { State } from './state'

type Ending = {
  status: FinalOrder['status']
  reason?: CancelReason
  /** Id of the order that takes its place. */
  replaced_by?: string
}

/** Returns the event number of the end. What a fill consumed whole has left the book already. */
export function endOrder(state: State, fx: Effects, order: Order, ending: Ending): number {
  const { instrument, key } = order
  if (order.remaining > 0) instrument.book.remove(order.handle)
  state.resting[order.handle] = undefined
  state.orders.delete(order.order_id)
  removeFromBucket(state.expiries, order.expiry_slot, order)
  removeExposure(order)
  key.orders.delete(order)
  key.account.live -= 1
  instrument.live -= 1
  releaseNote(order.collateral)
  state.finals.add({
    order_id: order.order_id,
    key: key.index,
    digest: order.digest,
    status: ending.status,
    reason: ending.reason,
    arrival_slot: order.arrival_slot,
    expiry_slot: order.expiry_slot,
    replaces: order.replaces,
    seq: order.seq,
    final_unix_ms: state.unix_ms,
  })
  const { status, reason, replaced_by } = ending
  const kind: EventKind = reason === 'replaced' ? 'order.replaced' : `order.${status}`
  const seq = fx.emit(key.account, kind, (seq) => orderView(order, { seq, status, reason, replaced_by }))
  dropAll(state.notes, [order.collateral, ...notesOfFills(order.fills)])
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
    endOrder(state, fx, order, { status: 'cancelled', reason })
    cancelled.push(order.order_id)
  }
  return cancelled
}
