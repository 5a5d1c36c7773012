/** Holds one auction: its price, its volume and its fills (matching.md "Close of a batch", steps 2 to 6). */
import type { Lots, Ticks } from '../../../protocol/units'
import { type Book, TICK_MAX } from './book'
import { Ladder, LEVELS_AT_ONCE, LevelOrders } from './ladder'
import { BUY, LIMIT, NO_ORDER, type OrderPool, SELL } from './order_pool'
import { Priority, type TieTerms } from './priority'

/** Each round drops one conditional order; after this many rounds all others are dropped too. */
export const DROP_ROUNDS_MAX = 32

/**
 * The rules and inputs of one auction. `reference` and `collar_bps` are null only in an auditor's case: a
 * venue without a usable reference skips the auction. `std4` does not use `volume_tolerance_bps`.
 */
export type CrossTerms = PriceTerms & TieTerms & { collar_bps: number | null }

export type Cross = {
  /** Clearing price, or null when nothing executes. */
  price: Ticks | null
  /** Lots bought = lots sold. */
  volume: Lots
  /** Demand minus supply at the price, without dropped orders; 0 without a price. */
  surplus: Lots
  /** Inclusive; null for an auction without a collar. */
  collar: Collar | null
  /** Orders cross, but only outside the collar: the edge the reference moves to (policy `last` only). Else null. */
  drift: Ticks | null
  buys: SideFills
  sells: SideFills
  /** Conditional orders excluded from this auction, in the order they were dropped. */
  dropped: number[]
  /** ioc and fok orders not filled whole, by ascending order id: the caller cancels their remainders. */
  remainders: number[]
}

const buys = new Ladder(BUY)
const sells = new Ladder(SELL)
const level_orders = new LevelOrders()

/**
 * Holds one auction over the resting orders without changing the book: apply it with `book.reduce(handle, lots)` for each
 * fill, then `book.remove` for the remainders still alive. Expired orders must have been removed before. The result depends
 * on the set of orders alone, not on the order in which they were added.
 */
export function cross(book: Book, terms: CrossTerms): Cross {
  const { collar_bps, reference } = terms
  const collar = reference === null || collar_bps === null ? null : collarAround(reference, collar_bps)
  openCrossing(book)
  const priority = new Priority(book.pool, terms)
  const dropped: number[] = []
  for (;;) {
    const clearing = clearingPrice(buys, sells, collar, terms)
    const short = shortFill(book, clearing, priority)
    if (short === undefined) return settle(book, clearing, collar, dropped, priority)
    drop(book, short, dropped)
    if (dropped.length === DROP_ROUNDS_MAX) dropAllConditional(book, dropped)
  }
}

/**
 * Opens the levels of the crossing range, including those beyond the collar: after drops, the levels left there decide
 * whether the reference drifts.
 */
function openCrossing(book: Book): void {
  const { pool } = book
  buys.clear()
  sells.clear()
  const bid = buys.bestTick(book.buys, pool)
  const ask = sells.bestTick(book.sells, pool)
  if (bid < 0 || ask < 0 || ask > bid) return
  buys.open(book.buys, pool, ask)
  sells.open(book.sells, pool, bid)
}

/** The partially filled order, which receives less than remains of it, if that is less than its minimum fill. */
function shortFill(book: Book, clearing: Clearing, priority: Priority): number | undefined {
  const { price, surplus, volume } = clearing
  if (price === null || surplus === 0 || book.conditional_orders === 0) return undefined
  const { pool } = book
  const partial = partialFill(surplus > 0 ? buys : sells, pool, price, volume, priority)
  if (partial === undefined) return undefined
  const { handle, lots } = partial
  return lots < pool.minFill(handle) ? handle : undefined
}

function drop(book: Book, handle: number, dropped: number[]): void {
  const ladder = book.pool.side(handle) === BUY ? buys : sells
  ladder.exclude(handle)
  dropped.push(handle)
}

function dropAllConditional(book: Book, dropped: number[]): void {
  const { pool } = book
  const rest: number[] = []
  for (const ladder of [buys, sells]) {
    for (let level = 0; ladder.has(level); level++) {
      ladder.readLevels(level, 1, level_orders)
      for (let at = level_orders.start(0); at < level_orders.end(0); at++) {
        const handle = level_orders.list[at]!
        if (pool.isConditional(handle)) rest.push(handle)
      }
    }
  }
  for (const handle of sortById(book, rest)) drop(book, handle, dropped)
}

function settle(
  book: Book,
  clearing: Clearing,
  collar: Collar | null,
  dropped: number[],
  priority: Priority,
): Cross {
  const executes = clearing.price !== null
  const bought = executes ? allocateSide(buys, book.pool, clearing.volume, priority) : NO_FILLS
  const sold = executes ? allocateSide(sells, book.pool, clearing.volume, priority) : NO_FILLS
  const remainders = immediateRemainders(book, [bought, sold])
  return { ...clearing, collar, buys: bought, sells: sold, dropped, remainders }
}

function immediateRemainders(book: Book, sides: SideFills[]): number[] {
  const { pool } = book
  if (book.immediate === NO_ORDER) return []
  const whole = new Set<number>()
  for (const { handles, lots } of sides) {
    for (let at = 0; at < handles.length; at++) {
      const handle = handles[at]!
      if (pool.kind(handle) !== LIMIT && lots[at] === pool.remaining[handle]) whole.add(handle)
    }
  }
  const rest: number[] = []
  for (let handle = book.immediate; handle !== NO_ORDER; handle = pool.immediate_next[handle]!) {
    if (!whole.has(handle)) rest.push(handle)
  }
  return sortById(book, rest)
}

function sortById(book: Book, handles: number[]): number[] {
  const { pool } = book
  return handles.sort((a, b) => pool.compareIds(a, b))
}

/**
 * Finds the clearing price of an auction inside the collar (matching.md "Close of a batch", steps 3 and 4). Only levels near
 * the point where demand and supply meet are read, so the cost follows the executed volume, not the range of limits.
 */

/** An inclusive range. */
type Range = { lo: Ticks; hi: Ticks }
/** The ticks around the reference among which the price must lie. */
type Collar = Range

/** `reference` plus and minus `collar_bps`, rounded inward to ticks; always includes the reference. */
export function collarAround(reference: Ticks, collar_bps: number): Collar {
  const lo = Math.ceil((reference * (10_000 - collar_bps)) / 10_000)
  const hi = Math.floor((reference * (10_000 + collar_bps)) / 10_000)
  return { lo: Math.max(1, lo), hi: Math.min(TICK_MAX, hi) }
}

/** `drift` is the edge of the collar beyond which orders cross while none cross inside; else null. */
type Clearing = { price: Ticks | null; volume: Lots; surplus: Lots; drift: Ticks | null }
type PriceTerms = {
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
function clearingPrice(buys: Ladder, sells: Ladder, collar: Collar | null, terms: PriceTerms): Clearing {
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

/** Fills of one side in allocation order: `handles[i]` receives `lots[i]`. Independent of the order of arrival. */
export type SideFills = { handles: Int32Array; lots: Float64Array }

const NO_FILLS: SideFills = { handles: new Int32Array(0), lots: new Float64Array(0) }

const orders = new LevelOrders()
let served = new Int32Array(256)
let served_lots = new Float64Array(256)

/** Fills one side in serving order; all fills but the last are whole. */
function allocateSide(ladder: Ladder, pool: OrderPool, volume: Lots, priority: Priority): SideFills {
  let level = 0
  let count = 0
  let left = volume
  for (;;) {
    const levels = wholeLevels(ladder, level, left)
    if (levels === 0) break
    ladder.readLevels(level, levels, orders)
    for (let place = 0; place < levels; place++) {
      priority.sort(orders.list, orders.start(place), orders.end(place))
      count = serveWhole(place, pool, count)
      left -= ladder.lots[level++]!
    }
  }
  const handles = sortedLevel(ladder, level, priority)
  for (let at = 0; left > 0; at++) {
    const handle = handles[at]!
    if (ladder.excluded.has(handle)) continue
    const lots = Math.min(left, pool.remaining[handle]!)
    makeRoom(count + 1)
    served[count] = handle
    served_lots[count++] = lots
    left -= lots
  }
  return { handles: served.slice(0, count), lots: served_lots.slice(0, count) }
}

/** How many levels from `first` on, at most LEVELS_AT_ONCE, have fewer lots than are left for them. */
function wholeLevels(ladder: Ladder, first: number, left: number): number {
  let levels = 0
  for (let rest = left; levels < LEVELS_AT_ONCE && ladder.lots[first + levels]! < rest; levels++)
    rest -= ladder.lots[first + levels]!
  return levels
}

/** Appends all orders of a level that was read to those served and returns the new count. */
function serveWhole(place: number, { remaining }: OrderPool, served_before: number): number {
  const end = orders.end(place)
  const { list } = orders
  let count = served_before
  makeRoom(count + end - orders.start(place))
  for (let at = orders.start(place); at < end; at++) {
    const handle = list[at]!
    served[count] = handle
    served_lots[count++] = remaining[handle]!
  }
  return count
}

function makeRoom(length: number): void {
  if (served.length >= length) return
  const [handles, lots] = [served, served_lots]
  served = new Int32Array(2 * length)
  served.set(handles)
  served_lots = new Float64Array(2 * length)
  served_lots.set(lots)
}

/** The order that would be partially filled, with its lots; undefined when the volume ends between two orders. */
function partialFill(
  ladder: Ladder,
  pool: OrderPool,
  price: Ticks,
  volume: Lots,
  priority: Priority,
): { handle: number; lots: Lots } | undefined {
  const sign = ladder.side === BUY ? -1 : 1
  let left = volume
  for (let level = 0; ladder.has(level) && sign * (ladder.ticks[level]! - price) <= 0; level++) {
    const lots = ladder.lots[level]!
    if (lots <= left) {
      left -= lots
      continue
    }
    const handles = sortedLevel(ladder, level, priority)
    // Later rounds may drop more orders of this level: it is sorted once per auction.
    if (handles === orders.list) ladder.sorted.set(ladder.ticks[level]!, handles.slice(0, orders.end(0)))
    for (let at = 0; left > 0; at++) {
      const handle = handles[at]!
      if (ladder.excluded.has(handle)) continue
      if (pool.remaining[handle]! > left) return { handle, lots: left }
      left -= pool.remaining[handle]!
    }
    return undefined
  }
  return undefined
}

/** The orders of a level in serving order; a level sorted in an earlier round includes orders excluded since. */
function sortedLevel(ladder: Ladder, level: number, priority: Priority): Int32Array {
  const sorted = ladder.sorted.get(ladder.ticks[level]!)
  if (sorted !== undefined) return sorted
  ladder.readLevels(level, 1, orders)
  priority.sort(orders.list, orders.start(0), orders.end(0))
  return orders.list
}
