/** Prevents self-crosses: a new order must not overlap live orders of its account (matching.md rule 2). */
import type { Ticks } from '../../../protocol/units'
import type { Side } from '../../../protocol/wire/trading'
import type { Account } from './account'
import type { InstrumentState } from './instrument'
import type { Order, OrderFacts } from './order'
import { PriceLevels } from './price_levels'

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
