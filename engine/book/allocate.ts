/** Owns who is filled once price and volume stand: each side from its best limit on until the volume is used. */
import { Handles, type Ladder } from './ladder'
import { BUY, type OrderPool } from './order_pool'
import { PriorityQueue } from './priority'

/** Fills of one side in allocation order: `handles[i]` gets `lots[i]`. Independent of the order of arrival. */
export type SideFills = { handles: Int32Array; lots: Float64Array }

export type TieTerms = {
  /** 32-byte batch seed that breaks the last ties. */
  seed: Uint8Array
  /** The bytes hashed for an order in a tie; its 16-byte order id when absent. */
  tieBytes?: ((handle: number) => Uint8Array) | undefined
}

export const NO_FILLS: SideFills = { handles: new Int32Array(0), lots: new Float64Array(0) }

const level_orders = new Handles()
const filled = new Handles()

/** Serves a side: every fill in priority order; all but the last are whole. */
export function allocateSide(ladder: Ladder, pool: OrderPool, volume: number, terms: TieTerms): SideFills {
  const queue = new PriorityQueue(pool, terms.seed, terms.tieBytes, level_orders)
  let count = 0
  let left = volume
  let last = 0
  for (let level = 0; left > 0; level++) {
    let waiting = ladder.orders(level, level_orders)
    queue.load(waiting)
    for (; left > 0 && waiting > 0; waiting--) {
      const handle = queue.pop()
      last = Math.min(left, pool.remaining[handle]!)
      left -= last
      filled.put(count++, handle)
    }
  }
  const handles = filled.list.slice(0, count)
  const lots = new Float64Array(count)
  for (let at = 0; at < count; at++) lots[at] = pool.remaining[handles[at]!]!
  lots[count - 1] = last
  return { handles, lots }
}

/** The one order that would be filled in part, with its lots; undefined when the volume ends between two orders. */
export function partialFill(
  ladder: Ladder,
  pool: OrderPool,
  price: number,
  volume: number,
  terms: TieTerms,
): { handle: number; lots: number } | undefined {
  const sign = ladder.side === BUY ? -1 : 1
  let left = volume
  for (let level = 0; level < ladder.size && sign * (ladder.ticks[level]! - price) <= 0; level++) {
    const lots = ladder.lots[level]!
    if (lots <= left) {
      left -= lots
      continue
    }
    if (left === 0) return undefined
    const queue = new PriorityQueue(pool, terms.seed, terms.tieBytes, level_orders)
    queue.load(ladder.orders(level, level_orders))
    for (;;) {
      const handle = queue.pop()
      if (pool.remaining[handle]! > left) return left === 0 ? undefined : { handle, lots: left }
      left -= pool.remaining[handle]!
    }
  }
  return undefined
}
