/** Packs the fills of an auction into settlement batches so that each conserves every mint by itself. */
import type { Order } from '../state/order'
import type { State } from '../state/state'
import { addFill, type Trade } from './add_fill'
import type { SettlementBatch } from './batch'
import type { Packer } from './packer'

/** Orders with their lots, aligned. */
export type Fills = { readonly orders: readonly Order[]; readonly lots: ArrayLike<number> }
/** What the orders of one settlement batch get in it. */
type Parts = { readonly orders: Order[]; readonly lots: number[] }

/**
 * Walks buys and sells with two pointers, matching equal lots. When the next pair does not fit, what is matched so far
 * (equal lots on both sides) is closed and the walk goes on in a new batch, so an order has one part per batch it
 * touches (matching.md rule 7). Both sides must sum to the same lots.
 */
export function packFills(state: State, packer: Packer, buys: Fills, sells: Fills, trade: Trade): void {
  let batch: SettlementBatch | undefined
  const parts: Parts = { orders: [], lots: [] }
  const buying = new Walk(buys)
  const selling = new Walk(sells)
  while (buying.left > 0 && selling.left > 0) {
    let fresh = buying.fresh + selling.fresh
    if (batch !== undefined && packer.room < fresh) {
      addParts(state, batch, parts, trade)
      batch = undefined
      buying.part = selling.part = NO_PART
      fresh = 2
    }
    if (fresh > 0) batch = packer.take(fresh)
    const lots = Math.min(buying.left, selling.left)
    buying.fill(lots, parts)
    selling.fill(lots, parts)
  }
  if (batch !== undefined) addParts(state, batch, parts, trade)
  if (buying.left > 0 || selling.left > 0) throw new Error('buys and sells of an auction differ')
}

/** Leaves the parts empty. */
function addParts(state: State, batch: SettlementBatch, parts: Parts, trade: Trade): void {
  const { orders, lots } = parts
  for (let part = 0; part < orders.length; part++) addFill(state, batch, orders[part]!, lots[part]!, trade)
  orders.length = lots.length = 0
}

const NO_PART = -1

/** One side of the walk: the order it stands at, what is left of that, and its part in the open batch. */
class Walk {
  left: number
  part = NO_PART
  private at = 0

  constructor(private readonly fills: Fills) {
    this.left = fills.lots[0] ?? 0
  }

  /** Parts that the next lots add to the open batch. */
  get fresh(): number {
    return this.part === NO_PART ? 1 : 0
  }

  /** Gives the order lots of what is left of it; goes on to the next order when nothing is left. */
  fill(lots: number, parts: Parts): void {
    if (this.part === NO_PART) {
      this.part = parts.orders.push(this.fills.orders[this.at]!) - 1
      parts.lots.push(0)
    }
    parts.lots[this.part]! += lots
    this.left -= lots
    if (this.left > 0) return
    this.part = NO_PART
    this.left = this.fills.lots[++this.at] ?? 0
  }
}
