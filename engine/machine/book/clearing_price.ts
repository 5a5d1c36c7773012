/**
 * Finds the clearing price of an auction inside the collar (matching.md "Close of a batch", steps 3 and 4). Only levels near
 * the point where demand and supply meet are read, so the cost follows the executed volume, not the range of limits.
 */
import type { Lots, Ticks } from '../../../protocol/units'
import { TICK_MAX } from './book'
import type { Ladder } from './ladder'

/** An inclusive range. */
type Range = { lo: Ticks; hi: Ticks }
/** The ticks around the reference among which the price must lie. */
export type Collar = Range

/** `reference` plus and minus `collar_bps`, rounded inward to ticks; always includes the reference. */
export function collarAround(reference: Ticks, collar_bps: number): Collar {
  const lo = Math.ceil((reference * (10_000 - collar_bps)) / 10_000)
  const hi = Math.floor((reference * (10_000 + collar_bps)) / 10_000)
  return { lo: Math.max(1, lo), hi: Math.min(TICK_MAX, hi) }
}

/** `drift` is the edge of the collar beyond which orders cross while none cross inside; else null. */
export type Clearing = { price: Ticks | null; volume: Lots; surplus: Lots; drift: Ticks | null }
export type PriceTerms = {
  reference: Ticks | null
  price_rule: 'std4' | 'ref'
  volume_tolerance_bps: number
}
/** Worse than any limit. */
const NO_BID = Number.NEGATIVE_INFINITY
const NO_ASK = Number.POSITIVE_INFINITY

/**
 * The levels that trade at the greatest volume: the best `bids` and `asks` levels, with `demand` and `supply` lots; `bid` and
 * `ask` are the limits of the last of them. Exactly the ticks from `ask` to `bid` give the greatest volume.
 */
type Meeting = { bids: number; demand: number; bid: number; asks: number; supply: number; ask: number }

/** The price among the levels of both ladders; null when nothing executes. */
export function clearingPrice(
  buys: Ladder,
  sells: Ladder,
  collar: Collar | null,
  terms: PriceTerms,
): Clearing {
  const none = { price: null, volume: 0, surplus: 0, drift: null }
  if (!buys.has(0) || !sells.has(0)) return none
  const bid = buys.ticks[0]!
  const ask = sells.ticks[0]!
  if (ask > bid) return none
  const bounds = collar ?? { lo: ask, hi: bid }
  if (ask > bounds.hi) return { ...none, drift: bounds.hi }
  if (bid < bounds.lo) return { ...none, drift: bounds.lo }
  const met = meet(buys, sells, bounds)
  const price =
    terms.price_rule === 'std4'
      ? standardPrice(buys, sells, met, terms.reference)
      : referencePrice(buys, sells, met, bounds, terms)
  const demand = buys.lotsTo(price, met.bids, met.demand)
  const supply = sells.lotsTo(price, met.asks, met.supply)
  return { price, volume: Math.min(demand, supply), surplus: demand - supply, drift: null }
}

/**
 * Walks both ladders as if they traded: the side with fewer lots advances to its next level while that crosses the last
 * level of the other side. Limits beyond an edge of the collar count as that edge.
 */
function meet(buys: Ladder, sells: Ladder, collar: Collar): Meeting {
  let bid = Math.min(buys.ticks[0]!, collar.hi)
  let ask = Math.max(sells.ticks[0]!, collar.lo)
  let bids = 0
  let asks = 0
  let demand = 0
  let supply = 0
  while (buys.tickOr(bids, NO_BID) >= bid) demand += buys.lots[bids++]!
  while (sells.tickOr(asks, NO_ASK) <= ask) supply += sells.lots[asks++]!
  for (;;) {
    if (demand <= supply) {
      const next = buys.tickOr(bids, NO_BID)
      // Equal lots consume the last ask, so the next bid has to cross the next ask.
      if (next < (demand < supply ? ask : sells.tickOr(asks, NO_ASK))) break
      demand += buys.lots[bids++]!
      bid = next
    }
    if (supply < demand) {
      const next = sells.tickOr(asks, NO_ASK)
      if (next > bid) break
      supply += sells.lots[asks++]!
      ask = next
    }
  }
  return { bids, demand, bid, asks, supply, ask }
}

/**
 * Rule `std4`: greatest volume, least surplus, then market pressure bounded by the reference. Demand only falls and supply
 * only rises with the price, so the surplus is least where they meet, and the candidate ticks form one range.
 */
function standardPrice(buys: Ladder, sells: Ladder, met: Meeting, reference: number | null): number {
  const bid_left = buys.tickOr(met.bids, NO_BID)
  const ask_left = sells.tickOr(met.asks, NO_ASK)
  const range = { lo: met.ask, hi: met.bid }
  let pressure = met.demand - met.supply
  if (pressure >= 0) range.lo = Math.max(met.ask, bid_left + 1)
  if (pressure <= 0) range.hi = Math.min(met.bid, ask_left - 1)
  if (range.lo > range.hi) {
    // Demand equals supply, but no tick lies between the next bid, where demand grows, and the next ask, where supply does.
    const below = buys.lots[met.bids]!
    const above = sells.lots[met.asks]!
    const bid_after = buys.tickOr(met.bids + 1, NO_BID)
    const ask_after = sells.tickOr(met.asks + 1, NO_ASK)
    range.lo = below <= above ? Math.max(met.ask, bid_after + 1) : ask_left
    range.hi = above <= below ? Math.min(met.bid, ask_after - 1) : bid_left
    pressure = above - below
  }
  const near = nearest(range, reference)
  if (pressure === 0) return near ?? midpoint(range)
  const limit = outerLimit(buys, sells, range, pressure > 0)
  if (limit === null) return near ?? midpoint(range)
  if (near === null) return limit
  return pressure > 0 ? Math.max(limit, near) : Math.min(limit, near)
}

/**
 * Rule `ref`: among the ticks whose volume is within the tolerance of the greatest, the one nearest the reference. A tick
 * has that volume when demand and supply both reach it there.
 */
function referencePrice(
  buys: Ladder,
  sells: Ladder,
  met: Meeting,
  collar: Collar,
  terms: PriceTerms,
): number {
  const greatest = Math.min(met.demand, met.supply)
  const scaled = BigInt(greatest) * BigInt(10_000 - terms.volume_tolerance_bps)
  const enough = Number((scaled + 9_999n) / 10_000n)
  const range = {
    lo: Math.max(tickReaching(sells, enough), collar.lo),
    hi: Math.min(tickReaching(buys, enough), collar.hi),
  }
  return nearest(range, terms.reference) ?? midpoint(range)
}

/** The limit of the level at which the cumulative lots, from the best level on, reach `enough`. */
function tickReaching(ladder: Ladder, enough: number): number {
  let level = 0
  for (let sum = ladder.lots[0]!; sum < enough; sum += ladder.lots[level]!) level++
  return ladder.ticks[level]!
}

function nearest(range: Range, reference: number | null): number | null {
  return reference === null ? null : Math.min(Math.max(reference, range.lo), range.hi)
}

function midpoint(range: Range): number {
  return Math.floor((range.lo + range.hi) / 2)
}

/** The highest (or lowest) limit of both ladders inside the range, or null. */
function outerLimit(buys: Ladder, sells: Ladder, range: Range, highest: boolean): number | null {
  let found: number | null = null
  for (let level = buys.size - 1; level >= 0 && buys.ticks[level]! <= range.hi; level--) {
    const tick = buys.ticks[level]!
    if (tick >= range.lo && (found === null || highest)) found = tick
  }
  for (let level = sells.size - 1; level >= 0 && sells.ticks[level]! >= range.lo; level--) {
    const tick = sells.ticks[level]!
    if (tick <= range.hi && (found === null || (highest ? tick > found : tick < found))) found = tick
  }
  return found
}
