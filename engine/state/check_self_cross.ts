/** No account may stand on both sides of a batch: new orders must not overlap own live ones (matching.md rule 2). */
import type { Side } from '../../protocol/wire'
import type { Account } from './account'
import type { InstrumentState } from './instrument'
import type { Order } from './order'
import type { OrderFacts } from './order_facts'

/** Whether an order of this account would overlap one of its live orders, `except` left out. */
export function crossesOwn(
  account: Account,
  instrument: InstrumentState,
  side: Side,
  ticks: number,
  except?: Order,
): boolean {
  const exposure = account.exposures.get(instrument)
  if (exposure === undefined) return false
  const levels = side === 'buy' ? exposure.sell : exposure.buy
  for (const [level, count] of levels) {
    const overlaps = side === 'buy' ? level <= ticks : level >= ticks
    if (!overlaps) continue
    const own = except?.instrument === instrument && except.side !== side && except.ticks === level ? 1 : 0
    if (count > own) return true
  }
  return false
}

type Exposed = Pick<OrderFacts, 'key' | 'instrument' | 'side' | 'ticks'>

export function addExposure(order: Exposed): void {
  const { account } = order.key
  let exposure = account.exposures.get(order.instrument)
  if (exposure === undefined) {
    exposure = { buy: new Map(), sell: new Map() }
    account.exposures.set(order.instrument, exposure)
  }
  const levels = exposure[order.side]
  levels.set(order.ticks, (levels.get(order.ticks) ?? 0) + 1)
}

export function removeExposure(order: Exposed): void {
  const { exposures } = order.key.account
  const exposure = exposures.get(order.instrument)!
  const levels = exposure[order.side]
  const count = levels.get(order.ticks)! - 1
  if (count > 0) levels.set(order.ticks, count)
  else levels.delete(order.ticks)
  if (exposure.buy.size === 0 && exposure.sell.size === 0) exposures.delete(order.instrument)
}
