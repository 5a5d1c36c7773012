/**
 * Owns the lists of orders of a few price levels, read side by side. Each order names the next one, so a list is read at
 * the pace at which memory answers: several are waited for together.
 */
import { NO_ORDER, type OrderPool } from './order_pool'

export const LEVELS_AT_ONCE = 4

/** Reused from auction to auction, so nothing is allocated per order. */
export class LevelOrders {
  /** The handles of a level stand from `start(level)` to `end(level)`. */
  list = new Int32Array(0)
  private readonly counts = new Int32Array(LEVELS_AT_ONCE)
  /** First orders of the lists to read. */
  private readonly heads = new Int32Array(LEVELS_AT_ONCE)
  /** Places there are for a level. */
  private room = 0

  start(level: number): number {
    return level * this.room
  }

  end(level: number): number {
    return level * this.room + this.counts[level]!
  }

  /** No level has orders any more, and each has room for all that rest. */
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

  /** The orders of an empty level are those of the list that begins with `head`. */
  follow(level: number, head: number): void {
    this.heads[level] = head
  }

  /** Reads the lists followed: side by side to the end of the shortest, then each to its own. */
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
