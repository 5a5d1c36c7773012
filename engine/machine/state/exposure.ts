/** Prevents self-crosses: a new order must not overlap live orders of its account (matching.md rule 2). */
import type { Ticks } from '../../../protocol/units'
import type { Side } from '../../../protocol/wire/trading'
import type { Account } from './account'
import type { InstrumentState } from './instrument'
import type { Order, OrderFacts } from './order'

/** Whether an order of this account would overlap one of its live orders other than `except`. */
export function crossesOwn(
  account: Account,
  instrument: InstrumentState,
  side: Side,
  ticks: Ticks,
  except?: Order,
): boolean {
  const exposure = account.exposures.get(instrument)
  if (exposure === undefined) return false
  const left_out = except?.instrument === instrument && except.side !== side ? except.ticks : undefined
  if (side === 'buy') {
    const lowest = exposure.sell.lowest(left_out)
    return lowest !== undefined && lowest <= ticks
  }
  const highest = exposure.buy.highest(left_out)
  return highest !== undefined && highest >= ticks
}

type Exposed = Pick<OrderFacts, 'key' | 'instrument' | 'side' | 'ticks'>

export function addExposure(order: Exposed): void {
  const { account } = order.key
  let exposure = account.exposures.get(order.instrument)
  if (exposure === undefined) {
    exposure = { buy: new PriceLevels(), sell: new PriceLevels() }
    account.exposures.set(order.instrument, exposure)
  }
  exposure[order.side].add(order.ticks)
}

export function removeExposure(order: Exposed): void {
  const { exposures } = order.key.account
  const exposure = exposures.get(order.instrument)!
  exposure[order.side].remove(order.ticks)
  if (exposure.buy.size === 0 && exposure.sell.size === 0) exposures.delete(order.instrument)
}

const LEVELS_MIN = 4
const EMPTY = new Uint32Array(0)

/**
 * A sorted array of (tick, count) pairs. Not a map: garbage collection would scan thousands of entries that each order
 * changes. Inserting a level moves the later ones in one copy.
 */
export class PriceLevels {
  private levels: Uint32Array = EMPTY
  private count = 0

  /** Number of prices with orders. */
  get size(): number {
    return this.count
  }

  /** The lowest tick with an order; one order at `except` is not counted. */
  lowest(except?: Ticks): Ticks | undefined {
    const at = this.isAlone(0, except) ? 1 : 0
    return at < this.count ? this.levels[2 * at] : undefined
  }

  /** The highest tick with an order; one order at `except` is not counted. */
  highest(except?: Ticks): Ticks | undefined {
    const at = this.isAlone(this.count - 1, except) ? this.count - 2 : this.count - 1
    return at >= 0 ? this.levels[2 * at] : undefined
  }

  add(tick: Ticks): void {
    const at = this.placeOf(tick)
    if (this.isAt(at, tick)) {
      this.levels[2 * at + 1]! += 1
      return
    }
    if (2 * this.count === this.levels.length) this.resize(Math.max(LEVELS_MIN, 2 * this.count), this.levels)
    this.levels.copyWithin(2 * at + 2, 2 * at, 2 * this.count)
    this.levels[2 * at] = tick
    this.levels[2 * at + 1] = 1
    this.count += 1
  }

  /** @throws Error when no order is at this tick */
  remove(tick: Ticks): void {
    const at = this.placeOf(tick)
    if (!this.isAt(at, tick)) throw new Error('no order lies at this price')
    this.levels[2 * at + 1]! -= 1
    if (this.levels[2 * at + 1]! > 0) return
    this.levels.copyWithin(2 * at, 2 * at + 2, 2 * this.count)
    this.count -= 1
    if (this.levels.length > 2 * LEVELS_MIN && 8 * this.count <= this.levels.length)
      this.resize(this.levels.length / 4, this.levels.subarray(0, 2 * this.count))
  }

  /** Whether exactly one order is at level `at`, and its tick is `tick`. */
  private isAlone(at: number, tick: Ticks | undefined): boolean {
    return tick !== undefined && this.isAt(at, tick) && this.levels[2 * at + 1] === 1
  }

  private isAt(at: number, tick: Ticks): boolean {
    return at >= 0 && at < this.count && this.levels[2 * at] === tick
  }

  /** The first level at or above `tick`. */
  private placeOf(tick: Ticks): number {
    let from = 0
    let to = this.count
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.levels[2 * middle]! < tick) from = middle + 1
      else to = middle
    }
    return from
  }

  private resize(levels: number, kept: Uint32Array): void {
    const resized = new Uint32Array(2 * levels)
    if (this.count > 0) resized.set(kept)
    this.levels = resized
  }
}
