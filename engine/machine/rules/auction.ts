/** Holds one auction of an instrument and applies its result: fills, settlement parts, cancelled remainders, reference. */

import { auctionHash } from '../../../protocol/bodies/auction_result'
import type { SlotNumber, Ticks } from '../../../protocol/units'
import type { SideFills } from '../book/allocate'
import { cross } from '../book/cross'
import { tradeAt } from '../settlement/add_fill'
import { type Fills, type Packer, packFills } from '../settlement/pack'
import type { ClosedBatch } from '../state/closed'
import type { InstrumentState } from '../state/instrument'
import type { Order } from '../state/order'
import type { AuctionRecord, Effects } from '../state/outcome'
import type { State } from '../state/state'
import { orderView } from '../state/views'
import { endOrder } from './order_life'

/** Only members are on the levels of the book. */
export function holdAuction(
  state: State,
  fx: Effects,
  packer: Packer,
  { slot, due }: { slot: SlotNumber; due: ClosedBatch['due'][number] },
): void {
  const { instrument, batch, reference_ticks, seed } = due
  const { terms, book } = instrument
  const result = cross(book, {
    reference: reference_ticks,
    collar_bps: terms.collar_bps,
    price_rule: terms.price_rule,
    volume_tolerance_bps: terms.volume_tolerance_bps,
    seed,
  })
  const buys = fillsOf(state, result.buys)
  const sells = fillsOf(state, result.sells)
  const remainders = result.remainders.map((handle) => state.orders.at(handle))
  // Reads the ids now: below, filled and cancelled orders end.
  const fills: AuctionRecord['fills'] = []
  for (const { orders, lots } of [buys, sells]) {
    for (let at = 0; at < orders.length; at++) fills.push({ order_id: orders[at]!.order_id, lots: lots[at]! })
  }
  const cancelled = remainders.map((order) => order.order_id)
  if (result.price !== null) {
    packFills(state, packer, buys, sells, tradeAt(terms, result.price, batch))
    for (const order of buys.orders) announceFill(state, fx, order)
    for (const order of sells.orders) announceFill(state, fx, order)
  }
  for (const order of remainders) {
    const reason = order.type === 'fok' ? 'fok_unfilled' : 'ioc_remainder'
    endOrder(state, fx, order, { status: 'cancelled', reason })
  }
  moveReference(instrument, result.price ?? result.drift)
  const record: Omit<AuctionRecord, 'result_hash'> = {
    symbol: terms.symbol,
    batch,
    slot,
    reference_ticks,
    seed,
    price_ticks: result.price,
    volume_lots: result.volume,
    fills: fills.sort((a, b) => (a.order_id < b.order_id ? -1 : 1)),
    cancelled: cancelled.sort(),
  }
  fx.auctions.push({ ...record, result_hash: auctionHash(record) })
}

function fillsOf(state: State, side: SideFills): Fills {
  const orders: Order[] = []
  for (const handle of side.handles) orders.push(state.orders.at(handle))
  return { orders, lots: side.lots }
}

function announceFill(state: State, fx: Effects, order: Order): void {
  if (order.remaining === 0) {
    endOrder(state, fx, order, { status: 'filled' })
    return
  }
  const { account } = order.key
  fx.emit(account, 'order.partially_filled', (seq) => orderView(order, { seq, status: 'partially_filled' }))
}

/** Under policy `last` the next reference is the clearing price, or the collar edge beyond which orders crossed. */
function moveReference(instrument: InstrumentState, ticks: Ticks | null): void {
  if (ticks === null || instrument.terms.reference_policy !== 'last') return
  instrument.reference_ticks = ticks
  instrument.book.recenter(ticks)
}
