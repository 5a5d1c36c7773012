/** Copies the price levels of one side that an auction may reach, best price first, and reads the orders of each. */
import type { BookSide } from './book'
import { BUY, NO_ORDER, type OrderPool, type Side } from './order_pool'

export const LEVELS_AT_ONCE = 4

/**
 * The orders of a few price levels, read in parallel: following a linked list waits for memory at each order, and several
 * lists can wait together. Reused by all auctions, so nothing is allocated per order.
 */
export class LevelOrders {
  /** The handles of a level are at `start(level)` to `end(level)`. */
  list = new Int32Array(0)
  private readonly counts = new Int32Array(LEVELS_AT_ONCE)
  /** First orders of the lists that `read` will follow. */
  private readonly heads = new Int32Array(LEVELS_AT_ONCE)
  /** Capacity of each level. */
  private room = 0

  start(level: number): number {
    return level * this.room
  }

  end(level: number): number {
    return level * this.room + this.counts[level]!
  }

  /** Empties all levels and makes each large enough for all resting orders. */
  clear(pool: OrderPool): void {
    if (pool.size > this.room) {
      this.room = Math.max(256, 2 * pool.size)
      this.list = new Int32Array(LEVELS_AT_ONCE * this.room)
    }
    for (let level = 0; level < LEVELS_AT_ONCE; level++) {
      this.counts[level] = 0
      this.heads[level] = NO_ORDER
    }
  }

  put(level: number, handle: number): void {
    this.list[this.end(level)] = handle
    this.counts[level]!++
  }

  /** Makes `read` fill an empty level with the list that begins with `head`. */
  follow(level: number, head: number): void {
    this.heads[level] = head
  }

  /** Reads the lists set by `follow`: in parallel to the end of the shortest, then one by one. */
  read({ next }: OrderPool): void {
    const { heads, list, room } = this
    let a = heads[0]!
    let b = heads[1]!
    let c = heads[2]!
    let d = heads[3]!
    let at = 0
    for (; a !== NO_ORDER && b !== NO_ORDER && c !== NO_ORDER && d !== NO_ORDER; at++) {
      list[at] = a
      list[room + at] = b
      list[2 * room + at] = c
      list[3 * room + at] = d
      a = next[a]!
      b = next[b]!
      c = next[c]!
      d = next[d]!
    }
    this.readOn(0, a, at, next)
    this.readOn(1, b, at, next)
    this.readOn(2, c, at, next)
    this.readOn(3, d, at, next)
  }

  private readOn(level: number, first: number, from: number, next: Int32Array): void {
    if (first === NO_ORDER && from === 0) return
    const { list } = this
    const start = this.start(level)
    let place = start + from
    for (let handle = first; handle !== NO_ORDER; handle = next[handle]!) list[place++] = handle
    this.counts[level] = place - start
  }
}

/** Copying levels in batches takes half the time of one call per level; some copies may stay unused. */
const COPIED_AT_ONCE = 32

/**
 * The levels of one side and their lots, copied lazily. Excluding an order reduces its level here, not in the book; a level
 * without lots is removed. Reused by all auctions, so nothing is allocated per order.
 */
export class Ladder {
  /** Levels copied so far. */
  size = 0
  ticks = new Float64Array(256)
  lots = new Float64Array(256)
  readonly excluded = new Set<number>()
  /** By tick: the orders of levels that a round of this auction sorted, including orders excluded since. */
  readonly sorted = new Map<number, Int32Array>()
  /** Where in `outside` the orders of a level outside the window begin. */
  private outside_from = new Int32Array(256)
  private outside: number[] = []
  private source!: BookSide
  private pool!: OrderPool
  /** Limit price of the worst level to copy. */
  private worst = 0
  /** Tick at which the search of the window continues. */
  private cursor = 0
  private complete = true

  constructor(readonly side: Side) {}

  /** Best occupied tick of a book side, or -1. */
  bestTick(source: BookSide, pool: OrderPool): number {
    const buys = this.side === BUY
    const beyond = outermost(buys ? source.above : source.below, pool, buys)
    if (beyond >= 0) return beyond
    const inside = buys ? source.previousTick(lastTick(source)) : source.nextTick(source.base)
    return inside >= 0 ? inside : outermost(buys ? source.below : source.above, pool, buys)
  }

  /** Starts an auction with the levels at `worst` or better. */
  open(source: BookSide, pool: OrderPool, worst: number): void {
    this.clear()
    this.source = source
    this.pool = pool
    this.worst = worst
    this.complete = false
    const buys = this.side === BUY
    this.cursor = buys ? lastTick(source) : source.base
    this.collectOutside(buys ? source.above : source.below)
  }

  clear(): void {
    this.size = 0
    this.complete = true
    this.outside.length = 0
    this.excluded.clear()
    this.sorted.clear()
  }

  /** Whether the level exists; copies the levels up to it. */
  has(level: number): boolean {
    while (level >= this.size) {
      if (this.complete) return false
      this.copyMore()
    }
    return true
  }

  /** The limit price of a level, or `otherwise` if it does not exist. */
  tickOr(level: number, otherwise: number): number {
    return this.has(level) ? this.ticks[level]! : otherwise
  }

  /** Lots at `price` or better; the search begins at the first `levels` levels, whose lots are `sum`. */
  lotsTo(price: number, levels: number, sum: number): number {
    let level = levels
    let lots = sum
    while (level > 0 && this.isWorse(this.ticks[level - 1]!, price)) lots -= this.lots[--level]!
    while (this.has(level) && !this.isWorse(this.ticks[level]!, price)) lots += this.lots[level++]!
    return lots
  }

  /** Removes an order of a copied level from this auction. */
  exclude(handle: number): void {
    const { lots, outside_from, ticks } = this
    const tick = this.pool.tick[handle]!
    let level = 0
    while (ticks[level] !== tick) level++
    lots[level]! -= this.pool.remaining[handle]!
    this.excluded.add(handle)
    if (lots[level]! > 0) return
    for (const list of [ticks, lots, outside_from]) list.copyWithin(level, level + 1, this.size)
    this.size--
  }

  /** Reads the orders, without excluded ones, of `levels` levels from `first` on, LEVELS_AT_ONCE at most. */
  readLevels(first: number, levels: number, into: LevelOrders): void {
    into.clear(this.pool)
    for (let place = 0; place < levels; place++) this.readLevel(first + place, place, into)
    into.read(this.pool)
  }

  private readLevel(level: number, place: number, into: LevelOrders): void {
    const { excluded, pool, source } = this
    const tick = this.ticks[level]!
    if (source.inWindow(tick)) {
      const head = source.headAt(tick)
      if (excluded.size === 0) {
        into.follow(place, head)
        return
      }
      for (let handle = head; handle !== NO_ORDER; handle = pool.next[handle]!) {
        if (!excluded.has(handle)) into.put(place, handle)
      }
      return
    }
    for (let at = this.outside_from[level]!; at < this.outside.length; at++) {
      const handle = this.outside[at]!
      if (pool.tick[handle] !== tick) break
      if (!excluded.has(handle)) into.put(place, handle)
    }
  }

  private isWorse(tick: number, price: number): boolean {
    return this.side === BUY ? tick < price : tick > price
  }

  /** Copies the next levels of the window; after its last one, all levels beyond it. */
  private copyMore(): void {
    const { source, worst } = this
    const buys = this.side === BUY
    while (this.size + COPIED_AT_ONCE > this.ticks.length) this.grow()
    const { lots, outside_from, ticks } = this
    const end = this.size + COPIED_AT_ONCE
    let { cursor, size } = this
    while (size < end) {
      const tick = buys ? source.previousTick(cursor) : source.nextTick(cursor)
      if (tick < 0 || (buys ? tick < worst : tick > worst)) break
      ticks[size] = tick
      lots[size] = source.lotsAt(tick)
      outside_from[size] = this.outside.length
      size++
      cursor = buys ? tick - 1 : tick + 1
    }
    this.size = size
    this.cursor = cursor
    if (size === end) return
    this.complete = true
    const beyond = buys ? worst < source.base : worst > lastTick(source)
    if (beyond) this.collectOutside(buys ? source.below : source.above)
  }

  private collectOutside(head: number): void {
    if (head === NO_ORDER) return
    const { outside, pool, worst } = this
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

function lastTick(source: BookSide): number {
  return source.base + source.window - 1
}

function outermost(head: number, pool: OrderPool, highest: boolean): number {
  let found = -1
  for (let handle = head; handle !== NO_ORDER; handle = pool.next[handle]!) {
    const tick = pool.tick[handle]!
    if (found < 0 || (highest ? tick > found : tick < found)) found = tick
  }
  return found
}
