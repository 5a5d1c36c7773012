/** Owns who is filled once price and volume stand: each side from its best limit on until the volume is used. */
import { Handles, type Ladder } from './ladder'
import { BUY, type OrderPool } from './order_pool'
import type { Priority } from './priority'

/** Fills of one side in allocation order: `handles[i]` gets `lots[i]`. Independent of the order of arrival. */
export type SideFills = { handles: Int32Array; lots: Float64Array }

export const NO_FILLS: SideFills = { handles: new Int32Array(0), lots: new Float64Array(0) }

const served = new Handles()
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
  let count = 0
  let left = volume
  const { remaining } = pool
  for (let level = 0; left > 0; level++) {
    const end = ladder.orders(level, served, count)
    const whole = ladder.lots[level]! < left
    if (ordered || !whole) priority.sort(served.list, count, end)
    if (whole) {
      if (served_lots.length < end) growLots(served.list.length)
      // While what was read to sort them is still near.
      for (; count < end; count++) served_lots[count] = remaining[served.list[count]!]!
      left -= ladder.lots[level]!
      continue
    }
    if (served_lots.length < end) growLots(served.list.length)
    for (let lots = 0; left > 0; left -= lots) {
      lots = Math.min(left, remaining[served.list[count]!]!)
      served_lots[count++] = lots
    }
  }
  return { handles: served.list.slice(0, count), lots: served_lots.slice(0, count) }
}

function growLots(length: number): void {
  const larger = new Float64Array(length)
  larger.set(served_lots)
  served_lots = larger
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
    const end = ladder.orders(level, served, 0)
    priority.sort(served.list, 0, end)
    for (let at = 0; left > 0; at++) {
      const handle = served.list[at]!
      if (pool.remaining[handle]! > left) return { handle, lots: left }
      left -= pool.remaining[handle]!
    }
    return undefined
  }
  return undefined
}
