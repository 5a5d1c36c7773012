/**
 * Owns the price of an auction: demand and supply over every tick of the crossing range, as intervals, and the two price
 * rules (matching.md "Close of a batch", steps 3 and 4).
 */
import type { Collar } from './collar'
import type { Ladder } from './ladder'

export type Clearing = { price: number | null; volume: number; surplus: number; drift: number | null }
export type PriceTerms = {
  reference: number | null
  price_rule: 'std4' | 'ref'
  volume_tolerance_bps: number
}
type Interval = { lo: number; hi: number }

/** Ticks from `start[i]` to the tick before `start[i + 1]` share one demand and supply; the last piece ends at `end`. */
const pieces = {
  count: 0,
  end: 0,
  start: new Float64Array(256),
  demand: new Float64Array(256),
  supply: new Float64Array(256),
}

/** Finds the price among the levels of both ladders. No execution has price null; `drift` says whether it was the collar. */
export function clearingPrice(
  buys: Ladder,
  sells: Ladder,
  collar: Collar | null,
  terms: PriceTerms,
): Clearing {
  const bid = bestLimit(buys)
  const ask = bestLimit(sells)
  if (bid < 0 || ask < 0 || ask > bid) return { price: null, volume: 0, surplus: 0, drift: null }
  const lo = collar === null ? ask : Math.max(ask, collar.lo)
  const hi = collar === null ? bid : Math.min(bid, collar.hi)
  if (lo > hi)
    return { price: null, volume: 0, surplus: 0, drift: ask > collar!.hi ? collar!.hi : collar!.lo }
  cutPieces(buys, sells, lo, hi)
  const price = terms.price_rule === 'std4' ? standardPrice(buys, sells, terms) : referencePrice(terms)
  let at = 0
  while (at + 1 < pieces.count && pieces.start[at + 1]! <= price) at++
  const demand = pieces.demand[at]!
  const supply = pieces.supply[at]!
  return { price, volume: Math.min(demand, supply), surplus: demand - supply, drift: null }
}

function bestLimit(ladder: Ladder): number {
  for (let level = 0; level < ladder.size; level++) if (ladder.lots[level]! > 0) return ladder.ticks[level]!
  return -1
}

/** Demand changes one tick above a bid limit, supply at an ask limit: those ticks start the pieces. */
function cutPieces(buys: Ladder, sells: Ladder, lo: number, hi: number): void {
  let demand = 0
  let bid = 0
  while (bid < buys.size && buys.ticks[bid]! >= lo) demand += buys.lots[bid++]!
  bid--
  let supply = 0
  let ask = 0
  pieces.count = 0
  pieces.end = hi
  for (let start = lo; start <= hi; ) {
    while (ask < sells.size && sells.ticks[ask]! <= start) supply += sells.lots[ask++]!
    while (bid >= 0 && buys.ticks[bid]! < start) demand -= buys.lots[bid--]!
    pushPiece(start, demand, supply)
    const ask_next = ask < sells.size ? sells.ticks[ask]! : Number.POSITIVE_INFINITY
    const bid_next = bid >= 0 ? buys.ticks[bid]! + 1 : Number.POSITIVE_INFINITY
    start = Math.min(ask_next, bid_next)
  }
}

function pushPiece(start: number, demand: number, supply: number): void {
  const at = pieces.count
  if (at === pieces.start.length) {
    for (const name of ['start', 'demand', 'supply'] as const) {
      const smaller = pieces[name]
      pieces[name] = new Float64Array(at * 2)
      pieces[name].set(smaller)
    }
  }
  pieces.start[at] = start
  pieces.demand[at] = demand
  pieces.supply[at] = supply
  pieces.count = at + 1
}

function endOf(piece: number): number {
  return piece + 1 < pieces.count ? pieces.start[piece + 1]! - 1 : pieces.end
}

/**
 * Rule `std4`: greatest volume, least surplus, then market pressure bounded by the reference. Volume rises and then
 * falls, and surplus never rises, so what remains after both is one interval.
 */
function standardPrice(buys: Ladder, sells: Ladder, terms: PriceTerms): number {
  let volume = 0
  let distance = Number.POSITIVE_INFINITY
  const best: Interval = { lo: 0, hi: 0 }
  let excess_demand = true
  let excess_supply = true
  for (let at = 0; at < pieces.count; at++) {
    const surplus = pieces.demand[at]! - pieces.supply[at]!
    const matched = Math.min(pieces.demand[at]!, pieces.supply[at]!)
    if (matched < volume || (matched === volume && Math.abs(surplus) > distance)) continue
    if (matched > volume || Math.abs(surplus) < distance) {
      volume = matched
      distance = Math.abs(surplus)
      best.lo = pieces.start[at]!
      excess_demand = excess_supply = true
    }
    best.hi = endOf(at)
    if (surplus <= 0) excess_demand = false
    if (surplus >= 0) excess_supply = false
  }
  const near = nearest(best, terms.reference)
  if (!excess_demand && !excess_supply) return near ?? midpoint(best)
  const limit = outerLimit(buys, sells, best, excess_demand)
  if (limit === null) return near ?? midpoint(best)
  if (near === null) return limit
  return excess_demand ? Math.max(limit, near) : Math.min(limit, near)
}

/** Rule `ref`: among the ticks whose volume is within the tolerance of the greatest, the one nearest the reference. */
function referencePrice(terms: PriceTerms): number {
  let greatest = 0
  for (let at = 0; at < pieces.count; at++) {
    greatest = Math.max(greatest, Math.min(pieces.demand[at]!, pieces.supply[at]!))
  }
  const scaled = BigInt(greatest) * BigInt(10_000 - terms.volume_tolerance_bps)
  const enough = Number((scaled + 9_999n) / 10_000n)
  const range: Interval = { lo: -1, hi: -1 }
  for (let at = 0; at < pieces.count; at++) {
    if (Math.min(pieces.demand[at]!, pieces.supply[at]!) < enough) continue
    if (range.lo < 0) range.lo = pieces.start[at]!
    range.hi = endOf(at)
  }
  return nearest(range, terms.reference) ?? midpoint(range)
}

function nearest(range: Interval, reference: number | null): number | null {
  return reference === null ? null : Math.min(Math.max(reference, range.lo), range.hi)
}

function midpoint(range: Interval): number {
  return Math.floor((range.lo + range.hi) / 2)
}

/** The highest (or lowest) limit inside the range among the orders of this round, or null. */
function outerLimit(buys: Ladder, sells: Ladder, range: Interval, highest: boolean): number | null {
  let found: number | null = null
  for (const ladder of [buys, sells]) {
    for (let level = 0; level < ladder.size; level++) {
      const tick = ladder.ticks[level]!
      if (ladder.lots[level] === 0 || tick < range.lo || tick > range.hi) continue
      if (found === null || (highest ? tick > found : tick < found)) found = tick
    }
  }
  return found
}
