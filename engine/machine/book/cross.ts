/** Holds one auction: its price, its volume and its fills (matching.md "Close of a batch", steps 2 to 6). */
import type { Lots, Ticks } from '../../../protocol/units'
import { allocateSide, NO_FILLS, partialFill, type SideFills } from './allocate'
import type { Book } from './book'
import { type Clearing, type Collar, clearingPrice, collarAround, type PriceTerms } from './clearing_price'
import { Ladder, LevelOrders } from './ladder'
import { BUY, LIMIT, NO_ORDER, SELL } from './order_pool'
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

/** The partially filled order, if it receives less than its minimum fill. */
function shortFill(book: Book, clearing: Clearing, priority: Priority): number | undefined {
  const { price, surplus, volume } = clearing
  if (price === null || surplus === 0 || book.conditional_orders === 0) return undefined
  const { pool } = book
  const partial = partialFill(surplus > 0 ? buys : sells, pool, price, volume, priority)
  if (partial === undefined) return undefined
  const { handle, lots } = partial
  return lots < Math.min(pool.minFill(handle), pool.remaining[handle]!) ? handle : undefined
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
