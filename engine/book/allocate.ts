/** Owns who is filled once price and volume stand: each side from its best limit on until the volume is used. */
import type { Ladder } from './ladder'
import { LevelOrders } from './level_orders'
import { BUY, type OrderPool } from './order_pool'
import type { Priority } from './priority'

/** Fills of one side in allocation order: `handles[i]` gets `lots[i]`. Independent of the order of arrival. */
export type SideFills = { handles: Int32Array; lots: Float64Array }

export const NO_FILLS: SideFills = { handles: new Int32Array(0), lots: new Float64Array(0) }

const orders = new LevelOrders()
let served = new Int32Array(256)
let served_lots = new Float64Array(256)

/**
 * Serves a side; all fills but the last are whole. With `ordered` every fill stands in serving order, else only the
 * levels do: who gets how much is the same.
 */
export function allocateSide(
  ladder: Ladder,
  pool: OrderPool,
  volume: number,
  priority: Priority,
  ordered: boolean,
): SideFills {
  const { remaining } = pool
  let count = 0
  let left = volume
  for (let first = 0, levels = 0; left > 0; first += levels) {
    levels = ladder.readLevels(first, left, orders)
    const { list } = orders
    for (let level = 0; level < levels; level++) {
      const start = orders.start(level)
      const end = orders.end(level)
      const whole = ladder.lots[first + level]! < left
      if (ordered || !whole) priority.sort(list, start, end)
      if (served.length < count + end - start) grow(count + end - start)
      if (whole) {
        for (let at = start; at < end; at++) {
          const handle = list[at]!
          served[count] = handle
          served_lots[count++] = remaining[handle]!
        }
        left -= ladder.lots[first + level]!
        continue
      }
      for (let at = start; left > 0; at++) {
        const handle = list[at]!
        const lots = Math.min(left, remaining[handle]!)
        served[count] = handle
        served_lots[count++] = lots
        left -= lots
      }
    }
  }
  return { handles: served.slice(0, count), lots: served_lots.slice(0, count) }
}

function grow(length: number): void {
  const [handles, lots] = [served, served_lots]
  served = new Int32Array(2 * length)
  served.set(handles)
  served_lots = new Float64Array(2 * length)
  served_lots.set(lots)
}

/** The one order that would be filled in part, with its lots; undefined when the volume ends between two orders. */
export function partialFill(
  ladder: Ladder,
  pool: OrderPool,
  price: number,
  volume: number,
  priority: Priority,
): { handle: number; lots: number } | undefined {
  const sign = ladder.side === BUY ? -1 : 1
  let left = volume
  for (let level = 0; ladder.has(level) && sign * (ladder.ticks[level]! - price) <= 0; level++) {
    const lots = ladder.lots[level]!
    if (lots <= left) {
      left -= lots
      continue
    }
    ladder.readLevels(level, 1, orders)
    priority.sort(orders.list, 0, orders.end(0))
    for (let at = 0; left > 0; at++) {
      const handle = orders.list[at]!
      if (pool.remaining[handle]! > left) return { handle, lots: left }
      left -= pool.remaining[handle]!
    }
    return undefined
  }
  return undefined
}
