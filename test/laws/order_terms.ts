/** The terms of the next order of a trader: backed by a note it has, near the price, mostly clear of its own orders. */

import type { State } from '../../engine/machine/state/state'
import type { OrderType, Side } from '../../protocol/wire/trading'
import { FEE_BPS, LOT } from '../kit/venue/machine_world'
import type { Random } from './random'
import { INSTRUMENTS, REFERENCE_TICKS } from './sim_settings'
import type { Simulation } from './simulation'
import { type Usable, usable } from './usable'

/** Quantities in lots, prices in ticks. */
export type OrderTerms = {
  symbol: string
  side: Side
  type: OrderType
  lots: bigint
  ticks: bigint
  min_lots: bigint
  expiry_slot: number
  note: Usable
}

const LOTS_MAX = 120n
/** Limits lie this far around the reference at most: some of it beyond the collar. */
const SPREAD_TICKS = 50

/** Undefined where the trader has no note that pays for a lot. */
export function orderTerms(simulation: Simulation, owner: number): OrderTerms | undefined {
  const { random, chain, venue, traders } = simulation
  const { symbol, base, quote } = random.pick(INSTRUMENTS)!
  const side: Side = random.chance(0.5) ? 'buy' : 'sell'
  const ticks = clearOfOwn(random, venue.state, traders[owner]!.account_id, symbol, side)
  const lotsOf = ({ amount }: Usable): bigint => (side === 'sell' ? amount / LOT : affordable(amount, ticks))
  const backing = usable(simulation, owner, side === 'sell' ? base : quote).filter((one) => lotsOf(one) > 0n)
  if (backing.length === 0) return undefined
  const largest = backing.reduce((best, one) => (one.amount > best.amount ? one : best))
  const note = random.chance(0.7) ? largest : random.pick(backing)!
  const most = lotsOf(note) < LOTS_MAX ? lotsOf(note) : LOTS_MAX
  const lots = BigInt(random.between(1, Number(most)))
  const type = random.pick(['limit', 'limit', 'limit', 'limit', 'ioc', 'fok'] as const)!
  const some = random.chance(0.25) ? BigInt(random.between(1, Number(lots))) : 0n
  const min_lots = type === 'fok' && some > 0n ? lots : some
  const soon = random.chance(0.01)
  const expiry_slot = chain.tip + (soon ? 0 : random.between(6, 120))
  return { symbol, side, type, lots, ticks, min_lots, expiry_slot, note }
}

/** Lots that a note pays for at a price, fee included. */
function affordable(amount: bigint, ticks: bigint): bigint {
  return (amount * 10_000n) / (ticks * BigInt(10_000 + FEE_BPS)) - 1n
}

/** A price around the reference; mostly one that meets no order of the account's own on the other side. */
function clearOfOwn(random: Random, state: State, account_id: string, symbol: string, side: Side): bigint {
  const ticks = REFERENCE_TICKS + random.between(-SPREAD_TICKS, SPREAD_TICKS)
  const instrument = state.instruments.get(symbol)!
  const own = state.accounts.get(account_id)?.exposures.get(instrument)
  if (own === undefined || random.chance(0.05)) return BigInt(ticks)
  const bound =
    side === 'buy'
      ? Math.min(ticks, (own.sell.lowest() ?? Number.POSITIVE_INFINITY) - 1)
      : Math.max(ticks, (own.buy.highest() ?? 0) + 1)
  return BigInt(bound)
}
