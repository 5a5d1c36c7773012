/** Holds one auction of an instrument and applies its result: fills, settlement parts, cancelled remainders, reference. */

import { ByteWriter } from '../../../protocol/byte_stream'
import { paddedAscii, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import type { SideFills } from '../book/allocate'
import { cross } from '../book/cross'
import { tradeAt } from '../settlement/add_fill'
import { type Fills, type Packer, packFills } from '../settlement/pack'
import type { InstrumentState } from '../state/instrument'
import type { Order } from '../state/order'
import type { AuctionRecord, Effects, Env } from '../state/outcome'
import { hexBytes, type State } from '../state/state'
import { orderView } from '../state/views'
import { endOrder } from './order_life'

const DOMAIN = utf8('tacit/auction/v1')
const HEAD_BYTES = 128
const ID_BYTES = 16
const FILL_BYTES = ID_BYTES + 8

/** The reference that an auction may use now, in ticks; if undefined, the auction is skipped and orders rest. */
export function usableReference(state: State, instrument: InstrumentState): number | undefined {
  const { reference_policy, symbol } = instrument.terms
  if (reference_policy === 'last') return instrument.reference_ticks
  const rule = state.settings?.reference_sources?.find((one) => one.symbol === symbol)
  if (rule === undefined) return undefined
  // The price may be from a source that has been removed from the settings.
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

/** Under policy `last` the next reference is the clearing price, or the collar edge beyond which orders crossed. */
function moveReference(instrument: InstrumentState, ticks: number | null): void {
  if (ticks === null || instrument.terms.reference_policy !== 'last') return
  instrument.reference_ticks = ticks
  instrument.book.recenter(ticks)
}

/**
 * SHA-256 over `tacit/auction/v1` ‖ symbol (16) ‖ batch ‖ slot ‖ reference ‖ seed (32) ‖ price (0 = none) ‖ volume ‖ for each
 * of fills, cancelled and expired: count ‖ ids ascending (16 bytes), fills with their lots. Integers are u64
 * little-endian, prices in ticks, quantities in lots. The journal stores it, so a replay with another result is detected.
 */
function auctionHash(record: Omit<AuctionRecord, 'result_hash'>): Uint8Array {
  const { fills, cancelled, expired } = record
  const to = new ByteWriter(HEAD_BYTES + FILL_BYTES * (fills.length + cancelled.length + expired.length))
  to.fixed(DOMAIN, DOMAIN.length)
  to.fixed(paddedAscii(record.symbol, 16), 16)
  to.uint(record.batch)
  to.uint(record.slot)
  to.uint(record.reference_ticks)
  to.fixed(record.seed, 32)
  to.uint(record.price_ticks ?? 0)
  to.uint(record.volume_lots)
  to.uint(fills.length)
  for (const { order_id, lots } of fills) {
    to.fixed(hexBytes(order_id, ID_BYTES), ID_BYTES)
    to.uint(lots)
  }
  for (const ids of [cancelled, expired]) {
    to.uint(ids.length)
    for (const id of ids) to.fixed(hexBytes(id, ID_BYTES), ID_BYTES)
  }
  return sha256(to.whole())
}
