/** Makes an accepted order live: locks its note, rests it in the book, announces it. */
import { concatBytes } from '../../protocol/bytes'
import { BUY, FOK, IOC, type Kind, LIMIT, SELL } from '../book/order_pool'
import type { PlaceFields } from '../commands'
import { addToBucket } from './buckets'
import { addExposure } from './check_self_cross'
import { bindKey } from './check_signer'
import type { PlacePlan } from './decide_place'
import type { Effects } from './effects'
import { lockNote } from './lock_note'
import type { Order } from './order'
import { orderView } from './order_view'
import type { State } from './state'

export const BOOK_KIND: Record<Order['type'], Kind> = { limit: LIMIT, ioc: IOC, fok: FOK }

/** `old` is the order replaced; with `keeps_age` its place in time goes over to the new one. */
export function openOrder(
  state: State,
  fx: Effects,
  body: PlaceFields,
  plan: PlacePlan,
  extra: { origin: string | undefined; old?: Order; keeps_age?: boolean },
): Order {
  const { instrument } = plan
  const key = bindKey(state, plan.signer)
  key.place_nonce = body.nonce
  const order: Order = {
    order_id: body.order_id.toHex(),
    key,
    instrument,
    side: body.side,
    type: body.type,
    lots: plan.lots,
    ticks: plan.ticks,
    min_lots: plan.min_lots,
    expiry_slot: body.expiry_slot,
    arrival_slot: state.slot,
    arrival_batch:
      extra.old !== undefined && extra.keeps_age === true ? extra.old.arrival_batch : instrument.next_batch,
    nonce: body.nonce,
    anchors: concatBytes(...body.anchors),
    digest: body.digest.toHex(),
    origin: extra.origin,
    replaces: extra.old?.order_id,
    seq: key.account.seq + 1,
    remaining: plan.lots,
    status: 'accepted',
    collateral: lockNote(state, plan.note),
    cumulative_quote: 0n,
    cumulative_fee: 0n,
    fills: [],
    handle: 0,
  }
  restOrder(state, order, body.order_id)
  state.notes.hold(order.collateral)
  fx.emit(key.account, 'order.accepted', (seq) => orderView(order, { seq, status: 'accepted' }))
  return order
}

/** Puts an order into the book and every index; a snapshot's orders come back the same way. */
export function restOrder(state: State, order: Order, order_id: Uint8Array): void {
  const { instrument, key } = order
  order.handle = instrument.book.add({
    side: order.side === 'buy' ? BUY : SELL,
    kind: BOOK_KIND[order.type],
    tick: order.ticks,
    lots: order.remaining,
    min_fill: order.min_lots,
    arrival_batch: order.arrival_batch,
    order_id,
  })
  state.resting[order.handle] = order
  state.orders.set(order.order_id, order)
  addToBucket(state.expiries, order.expiry_slot, order)
  addExposure(order)
  key.orders.add(order)
  key.account.live += 1
  instrument.live += 1
}
