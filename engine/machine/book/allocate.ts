/** Allocates the volume of an auction at its price: each side from its best limit on until the volume is used up. */
import type { Lots, Ticks } from '../../../protocol/units'
import { type Ladder, LEVELS_AT_ONCE, LevelOrders } from './ladder'
import { BUY, type OrderPool } from './order_pool'
import type { Priority } from './priority'

/** Fills of one side in allocation order: `handles[i]` receives `lots[i]`. Independent of the order of arrival. */
export type SideFills = { handles: Int32Array; lots: Float64Array }

export const NO_FILLS: SideFills = { handles: new Int32Array(0), lots: new Float64Array(0) }

const orders = new LevelOrders()
let served = new Int32Array(256)
let served_lots = new Float64Array(256)

/** Fills one side in serving order; all fills but the last are whole. */
export function allocateSide(ladder: Ladder, pool: OrderPool, volume: Lots, priority: Priority): SideFills {
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
export function partialFill(
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
