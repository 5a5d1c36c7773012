/** Makes an accepted order live: locks its note, rests it in the book, announces it. */
import { BUY, FOK, IOC, type Kind, LIMIT, SELL } from '../book/order_pool'
import type { PlaceFields } from '../commands'
import { addExposure } from './check_self_cross'
import { bindKey } from './check_signer'
import type { PlacePlan } from './decide_place'
import type { Effects } from './effects'
import { lockNote } from './lock_note'
import type { Order } from './order'
import type { OrderFacts } from './order_facts'
import { orderView } from './order_view'
import type { State } from './state'

export const BOOK_KIND: Record<Order['type'], Kind> = { limit: LIMIT, ioc: IOC, fok: FOK }

/** `replaces` is the id of an order that has made place; with its `arrival_batch` its place in time goes over. */
export function openOrder(
  state: State,
  fx: Effects,
  body: PlaceFields,
  plan: PlacePlan,
  extra: { origin: string | undefined; replaces?: Uint8Array; arrival_batch?: number | undefined },
): Order {
  const { instrument } = plan
  const key = bindKey(state, plan.signer)
  key.place_nonce = body.nonce
  const order = restOrder(state, {
    order_id: body.order_id,
    key,
    instrument,
    side: body.side,
    type: body.type,
    lots: plan.lots,
    ticks: plan.ticks,
    min_lots: plan.min_lots,
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

/** Puts an order into the book and every index; a snapshot's orders come back the same way. */
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
