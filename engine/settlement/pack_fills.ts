/** Packs the fills of an auction into settlement batches so that each conserves every mint by itself. */
import type { Order } from '../state/order'
import type { State } from '../state/state'
import { addFill, type Trade } from './add_fill'
import type { SettlementBatch } from './batch'
import type { Packer } from './packer'

export type Fills = { order: Order; lots: number }[]

/**
 * Walks buys and sells with two pointers, matching equal lots. When the next pair does not fit, what is matched so far
 * (equal lots on both sides) is closed and the walk goes on in a new batch, so an order has one part per batch it
 * touches (matching.md rule 7). Both sides must sum to the same lots.
 */
export function packFills(state: State, packer: Packer, buys: Fills, sells: Fills, trade: Trade): void {
  const parts = new Map<Order, number>()
  let batch: SettlementBatch | undefined
  const add = (order: Order, lots: number) => parts.set(order, (parts.get(order) ?? 0) + lots)
  const close = () => {
    for (const [order, lots] of parts) addFill(state, batch!, order, lots, trade)
    parts.clear()
    batch = undefined
  }
  for (const { buy, sell, lots } of pairs(buys, sells)) {
    const fresh = (parts.has(buy) ? 0 : 1) + (parts.has(sell) ? 0 : 1)
    if (batch !== undefined && packer.room < fresh) close()
    const needed = batch === undefined ? 2 : fresh
    if (needed > 0) batch = packer.take(needed)
    add(buy, lots)
    add(sell, lots)
  }
  close()
}

function* pairs(buys: Fills, sells: Fills): Generator<{ buy: Order; sell: Order; lots: number }> {
  let at_buy = 0
  let at_sell = 0
  let buy_left = buys[0]?.lots ?? 0
  let sell_left = sells[0]?.lots ?? 0
  while (at_buy < buys.length && at_sell < sells.length) {
    const lots = Math.min(buy_left, sell_left)
    yield { buy: buys[at_buy]!.order, sell: sells[at_sell]!.order, lots }
    buy_left -= lots
    sell_left -= lots
    if (buy_left === 0) buy_left = buys[++at_buy]?.lots ?? 0
    if (sell_left === 0) sell_left = sells[++at_sell]?.lots ?? 0
  }
  if (buy_left > 0 || sell_left > 0) throw new Error('buys and sells of an auction differ')
}
