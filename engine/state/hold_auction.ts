/** Holds one auction of an instrument and applies its result: fills, settlement parts, cancelled remainders, reference. */
import type { SideFills } from '../book/allocate'
import { cross } from '../book/cross'
import { tradeAt } from '../settlement/add_fill'
import { type Fills, packFills } from '../settlement/pack_fills'
import type { Packer } from '../settlement/packer'
import { auctionHash } from './auction_hash'
import type { Effects } from './effects'
import { endOrder } from './end_order'
import type { InstrumentState } from './instrument'
import type { Order } from './order'
import { orderView } from './order_view'
import type { AuctionRecord, Env } from './outcome'
import type { State } from './state'

/** The reference an auction may use now, in ticks; undefined skips the auction and orders rest. */
export function usableReference(state: State, instrument: InstrumentState): number | undefined {
  const { reference_policy, symbol } = instrument.terms
  if (reference_policy === 'last') return instrument.reference_ticks
  const rule = state.settings?.reference_sources?.find((one) => one.symbol === symbol)
  if (rule === undefined) return undefined
  // What a source published that the settings no longer name counts no more.
  if (!rule.sources.some(({ source }) => source === instrument.reference_source)) return undefined
  const age_ms = state.unix_ms - instrument.reference_unix_ms
  return age_ms <= rule.max_age_ms ? instrument.reference_ticks : undefined
}

export function holdAuction(
  state: State,
  fx: Effects,
  env: Env,
  packer: Packer,
  instrument: InstrumentState,
  reference_ticks: number,
  expired: string[],
): void {
  const { terms, book } = instrument
  const batch = instrument.next_batch
  const seed = env.batchSeed(terms.symbol, batch, state.epoch)
  const result = cross(book, {
    reference: reference_ticks,
    collar_bps: terms.collar_bps,
    price_rule: terms.price_rule,
    volume_tolerance_bps: terms.volume_tolerance_bps,
    seed,
  })
  instrument.next_batch += 1
  const buys = fillsOf(state, result.buys)
  const sells = fillsOf(state, result.sells)
  const remainders = result.remainders.map((handle) => state.orders.at(handle))
  // Ids while the orders live: what is filled whole or cancelled ends here.
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
    slot: state.slot,
    reference_ticks,
    seed,
    price_ticks: result.price,
    volume_lots: result.volume,
    fills: fills.sort((a, b) => (a.order_id < b.order_id ? -1 : 1)),
    cancelled: cancelled.sort(),
    expired: [...expired].sort(),
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

/** Under policy `last` the clearing price is the next reference, or the collar edge that orders crossed beyond. */
function moveReference(instrument: InstrumentState, ticks: number | null): void {
  if (ticks === null || instrument.terms.reference_policy !== 'last') return
  instrument.reference_ticks = ticks
  instrument.book.recenter(ticks)
}
