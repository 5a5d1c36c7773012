/** Opens and closes orders: locks and frees the note, updates the book and every index, announces the change. */
import type { EventSeq } from '../../../protocol/units'
import type { CancelReason, EventKind } from '../../../protocol/wire/trading'
import type { PlaceFields } from '../../commands'
import { BUY, FOK, IOC, type Kind, LIMIT, SELL } from '../book/order_pool'
import { isMember } from '../state/closed'
import { addExposure, removeExposure } from '../state/exposure'
import type { FinalOrder } from '../state/final_orders'
import type { Order, OrderFacts } from '../state/order'
import { IDENTITY_BYTES } from '../state/order_row'
import type { Effects } from '../state/outcome'
import type { State } from '../state/state'
import { orderView } from '../state/views'
import { lockNote, releaseNote } from './backing_note'
import { bindKey } from './checks'
import type { PlacePlan } from './place'

export const BOOK_KIND: Record<Order['type'], Kind> = { limit: LIMIT, ioc: IOC, fok: FOK }

/** @param extra `replaces` is the id of a replaced order; `arrival_batch` is set if the new order keeps its age */
export function openOrder(
  state: State,
  fx: Effects,
  body: PlaceFields,
  plan: PlacePlan,
  extra: { origin: string | undefined; replaces?: Uint8Array; arrival_batch?: number | undefined },
): Order {
  const { instrument } = plan
  const key = bindKey(state, plan.signer)
  // A deferred modify opens its order after later commands of the key.
  if (body.nonce > key.place_nonce) key.place_nonce = body.nonce
  const order = restOrder(state, {
    order_id: body.order_id,
    key,
    instrument,
    side: body.side,
    type: body.type,
    lots: plan.lots,
    ticks: plan.ticks,
    min_lots: plan.min_lots,
    fee_bps: instrument.terms.fee_bps,
    expiry_slot: body.expiry_slot,
    arrival_slot: state.slot,
    arrival_batch: extra.arrival_batch ?? instrument.next_batch,
    nonce: body.nonce,
    anchors: body.anchors,
    digest: body.digest,
    origin: extra.origin,
    replaces: extra.replaces,
    seq: key.account.seq + 1,
    remaining: plan.lots,
    status: 'accepted',
    collateral: lockNote(state, plan.note),
    traded: undefined,
  })
  fx.emit(key.account, 'order.accepted', (seq) => orderView(order, { seq, status: 'accepted' }))
  return order
}

/** Adds an order to the book and every index, for new orders and for those of a snapshot. */
export function restOrder(state: State, facts: OrderFacts): Order {
  const { instrument, key } = facts
  const handle = instrument.book.add({
    side: facts.side === 'buy' ? BUY : SELL,
    kind: BOOK_KIND[facts.type],
    tick: facts.ticks,
    lots: facts.remaining,
    min_fill: facts.min_lots,
    arrival_batch: facts.arrival_batch,
    order_id: facts.order_id,
  })
  const order = state.orders.add(handle, facts)
  addExposure(facts)
  key.account.live += 1
  instrument.live += 1
  return order
}

/** A buffer that every closing order reuses. */
const IDENTITY = new Uint8Array(IDENTITY_BYTES)

type Ending = {
  status: FinalOrder['status']
  reason?: CancelReason
  /** Id of the replacement. */
  replaced_by?: string
}

/** Returns the seq of the closing event. Fully filled orders have already left the book. */
export function endOrder(state: State, fx: Effects, order: Order, ending: Ending): EventSeq {
  const { instrument, key } = order
  const { status, reason, replaced_by } = ending
  removeExposure(order)
  key.account.live -= 1
  instrument.live -= 1
  releaseNote(order.collateral)
  order.readIdentity(IDENTITY)
  state.finals.add(IDENTITY, {
    key: key.index,
    status,
    reason,
    arrival_slot: order.arrival_slot,
    expiry_slot: order.expiry_slot,
    replaces: order.has_replaced,
    seq: order.seq,
    final_unix_ms: state.unix_ms,
  })
  const kind: EventKind = reason === 'replaced' ? 'order.replaced' : `order.${status}`
  const seq = fx.emit(key.account, kind, (seq) => orderView(order, { seq, status, reason, replaced_by }))
  // The row still reads the columns of the book, so it is removed first. The last fill has already removed the order there.
  const rests = order.remaining > 0
  const { handle } = order
  state.orders.remove(order)
  if (rests) instrument.book.remove(handle)
  return seq
}

/** Cancels several orders for one reason: members of a closed batch after its decision. */
export function cancelOrders(state: State, fx: Effects, orders: Iterable<Order>, reason: CancelReason): void {
  for (const order of [...orders]) {
    const { key, id: order_id } = order
    if (!isMember(order)) endOrder(state, fx, order, { status: 'cancelled', reason })
    else state.closed!.end({ kind: 'cancel', number: 0, key, cancel_nonce: 0n, order_id, reason })
  }
}
