/** Owns the price levels of one side that can take part in an auction, copied out of the book best price first. */
import type { BookSide } from './book_side'
import { BUY, NO_ORDER, type OrderPool, type Side } from './order_pool'

/**
 * Levels and their lots. Dropping an order lowers its level here and leaves the book alone; a level at zero lots no
 * longer counts as a price limit. Reused from auction to auction, so nothing is allocated per order.
 */
export class Ladder {
  size = 0
  ticks = new Float64Array(256)
  lots = new Float64Array(256)
  readonly excluded = new Set<number>()
  /** First handle in `outside` of a level outside the window; the next level's first ends it. */
  private outside_from = new Int32Array(256)
  private outside: number[] = []
  private source!: BookSide
  private pool!: OrderPool

  constructor(readonly side: Side) {}

  /** Best occupied tick of a book side, or -1. */
  bestTick(source: BookSide, pool: OrderPool): number {
    const buys = this.side === BUY
    const beyond = outermost(buys ? source.above : source.below, pool, buys)
    if (beyond >= 0) return beyond
    const inside = buys ? source.previousTick(source.base + source.window - 1) : source.nextTick(source.base)
    return inside >= 0 ? inside : outermost(buys ? source.below : source.above, pool, buys)
  }

  /** Copies every level at `worst` or better. */
  collect(source: BookSide, pool: OrderPool, worst: number): void {
    this.source = source
    this.pool = pool
    this.clear()
    const last = source.base + source.window - 1
    if (this.side === BUY) {
      this.collectOutside(source.above, worst)
      let tick = source.previousTick(last)
      for (; tick >= worst && tick >= 0; tick = source.previousTick(tick - 1))
        this.push(tick, source.lotsAt(tick))
      if (worst < source.base) this.collectOutside(source.below, worst)
    } else {
      this.collectOutside(source.below, worst)
      let tick = source.nextTick(source.base)
      for (; tick <= worst && tick >= 0; tick = source.nextTick(tick + 1))
        this.push(tick, source.lotsAt(tick))
      if (worst > last) this.collectOutside(source.above, worst)
    }
  }

  clear(): void {
    this.size = 0
    this.outside.length = 0
    this.excluded.clear()
  }

  /** Takes an order out of this auction. */
  exclude(handle: number): void {
    const tick = this.pool.tick[handle]!
    let level = 0
    while (this.ticks[level] !== tick) level++
    this.lots[level]! -= this.pool.remaining[handle]!
    this.excluded.add(handle)
  }

  /** Writes the handles of a level's orders that take part to `into` from `start` on; returns where they end. */
  orders(level: number, into: Handles, start: number): number {
    const { excluded, pool, source } = this
    const tick = this.ticks[level]!
    let end = start
    if (source.inWindow(tick)) {
      for (let handle = source.headAt(tick); handle !== NO_ORDER; handle = pool.next[handle]!) {
        if (excluded.size === 0 || !excluded.has(handle)) into.put(end++, handle)
      }
      return end
    }
    for (let at = this.outside_from[level]!; at < this.outside.length; at++) {
      const handle = this.outside[at]!
      if (pool.tick[handle] !== tick) break
      if (!excluded.has(handle)) into.put(end++, handle)
    }
    return end
  }

  private collectOutside(head: number, worst: number): void {
    if (head === NO_ORDER) return
    const { outside, pool } = this
    const sign = this.side === BUY ? -1 : 1
    const found: number[] = []
    for (let handle = head; handle !== NO_ORDER; handle = pool.next[handle]!) {
      if (sign * (pool.tick[handle]! - worst) <= 0) found.push(handle)
    }
    found.sort((a, b) => sign * (pool.tick[a]! - pool.tick[b]!))
    for (const handle of found) {
      const tick = pool.tick[handle]!
      if (this.size === 0 || this.ticks[this.size - 1] !== tick) this.push(tick, 0)
      this.lots[this.size - 1]! += pool.remaining[handle]!
      outside.push(handle)
    }
  }

  private push(tick: number, lots: number): void {
    if (this.size === this.ticks.length) this.grow()
    this.ticks[this.size] = tick
    this.lots[this.size] = lots
    this.outside_from[this.size] = this.outside.length
    this.size++
  }

  private grow(): void {
    const { ticks, lots, outside_from } = this
    const length = ticks.length * 2
    this.ticks = new Float64Array(length)
    this.ticks.set(ticks)
    this.lots = new Float64Array(length)
    this.lots.set(lots)
    this.outside_from = new Int32Array(length)
    this.outside_from.set(outside_from)
  }
}

/** A reusable list of handles that grows by doubling. */
export class Handles {
  list = new Int32Array(256)

  put(at: number, handle: number): void {
    if (at === this.list.length) {
      const { list } = this
      this.list = new Int32Array(at * 2)
      this.list.set(list)
    }
    this.list[at] = handle
  }
}

function outermost(head: number, pool: OrderPool, highest: boolean): number {
  let found = -1
  for (let handle = head; handle !== NO_ORDER; handle = pool.next[handle]!) {
    const tick = pool.tick[handle]!
    if (found < 0 || (highest ? tick > found : tick < found)) found = tick
  }
  return found
}
