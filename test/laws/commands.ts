/** What traders, oracles and the operator of a simulated venue ask of it. */
import type { CommandBody, PlaceFields } from '../../engine/commands'
import type { Order } from '../../engine/machine/state/order'
import type { State } from '../../engine/machine/state/state'
import type { OrderType, Side } from '../../protocol/wire/trading'
import type { Random } from '../kit/random'
import { FEE_BPS, LOT, SIGNATURE, TICK } from '../kit/venue/machine_world'
import type { Came } from './operations'
import { INSTRUMENTS, ORACLE, REFERENCE_TICKS } from './sim_settings'
import { type Simulation, TRADERS } from './simulation'
import { nextCancelNonce, nextNonce, type Usable, usable } from './usable'

/** Quantities in lots, prices in ticks. */
type OrderTerms = {
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
function orderTerms(simulation: Simulation, owner: number): OrderTerms | undefined {
  const { random, chain, venue, traders } = simulation
  const { symbol, base, quote } = random.pick(INSTRUMENTS)
  const side: Side = random.chance(0.5) ? 'buy' : 'sell'
  const ticks = clearOfOwn(random, venue.state, traders[owner]!.account_id, symbol, side)
  const lotsOf = ({ amount }: Usable): bigint => (side === 'sell' ? amount / LOT : affordable(amount, ticks))
  const backing = usable(simulation, owner, side === 'sell' ? base : quote).filter((one) => lotsOf(one) > 0n)
  if (backing.length === 0) return undefined
  const largest = backing.reduce((best, one) => (one.amount > best.amount ? one : best))
  const note = random.chance(0.7) ? largest : random.pick(backing)
  const most = lotsOf(note) < LOTS_MAX ? lotsOf(note) : LOTS_MAX
  const lots = BigInt(random.between(1, Number(most)))
  const type = random.pick(['limit', 'limit', 'limit', 'limit', 'ioc', 'fok'] as const)
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

const CROWD = 30

function ask({ venue }: Simulation, body: CommandBody): Came {
  const outcome = venue.run(body)
  return outcome.ok ? undefined : outcome.code
}

export function place(simulation: Simulation): Came {
  const { random, traders } = simulation
  const owner = random.between(0, TRADERS - 1)
  const terms = orderTerms(simulation, owner)
  if (terms === undefined) return 'nothing'
  const { account_id } = traders[owner]!
  const origin = random.chance(0.2) ? `${account_id} socket` : undefined
  return ask(simulation, { kind: 'place', account_id, origin, ...bodyOf(simulation, owner, terms) })
}

/** Orders of one slot: an auction whose fills need several settlement batches. */
export async function crowd(simulation: Simulation): Promise<Came> {
  for (let orders = 0; orders < CROWD; orders++) {
    const came = place(simulation)
    simulation.count(came === undefined ? 'place' : `place: ${came}`)
  }
  await simulation.tick()
  return undefined
}

function bodyOf(simulation: Simulation, owner: number, terms: OrderTerms): PlaceFields {
  const { random, traders } = simulation
  const { key } = traders[owner]!
  const { symbol, side, type, lots, ticks, min_lots, expiry_slot, note } = terms
  return {
    order_id: random.bytes(16),
    trading_key: key,
    symbol,
    side,
    type,
    amount: lots * LOT,
    price_limit: ticks * TICK,
    min_fill: min_lots * LOT,
    expiry_slot,
    nonce: nextNonce(simulation, key),
    collateral_commitment: note.commitment,
    anchors: Array.from({ length: random.between(1, 3) }, () => random.element()),
    signature: SIGNATURE,
    opening: note.opening,
    digest: random.bytes(32),
  }
}

function pickOrder({ random, venue }: Simulation): Order | undefined {
  return random.pickIfAny([...venue.state.orders.values()])
}
const ownerOf = ({ traders }: Simulation, { key }: Order): number =>
  traders.findIndex(({ account_id }) => account_id === key.account.account_id)

/** A smaller remainder, or the order at another price, backed by its own note or by another. */
export function modify(simulation: Simulation): Came {
  const { random } = simulation
  const order = pickOrder(simulation)
  if (order?.collateral.commitment === undefined) return 'nothing'
  const owner = ownerOf(simulation, order)
  const { account_id, key } = simulation.traders[owner]!
  const note = backing(simulation, owner, order)
  const reduces = order.remaining > 1 && random.chance(0.4)
  const lots = reduces ? random.between(1, order.remaining - 1) : order.remaining
  const terms: OrderTerms = {
    symbol: order.instrument.terms.symbol,
    side: order.side,
    type: order.type,
    lots: BigInt(lots),
    ticks: BigInt(reduces ? order.ticks : order.ticks + random.between(-3, 3)),
    min_lots: BigInt(Math.min(order.min_lots, lots)),
    expiry_slot: order.expiry_slot,
    note: reduces ? ownNote(order) : note,
  }
  const cancel_nonce = nextCancelNonce(simulation, key)
  const order_id = Uint8Array.fromHex(order.order_id)
  const cancel_body = { order_id, trading_key: key, cancel_nonce, signature: SIGNATURE }
  const replacement = bodyOf(simulation, owner, terms)
  return ask(simulation, { kind: 'modify', account_id, origin: undefined, cancel: cancel_body, replacement })
}

const ownNote = ({ collateral }: Order): Usable => ({
  mint: '',
  commitment: collateral.commitment!,
  amount: collateral.amount,
  opening: undefined,
})

function backing(simulation: Simulation, owner: number, order: Order): Usable {
  const { venue, random } = simulation
  const others = usable(simulation, owner, venue.state.mints[order.collateral.mint]!.text)
  const enough = others.filter(({ amount }) => amount >= order.collateral.amount)
  return random.chance(0.3) ? (random.pickIfAny(enough) ?? ownNote(order)) : ownNote(order)
}

export function cancel(simulation: Simulation): Came {
  const order = pickOrder(simulation)
  if (order === undefined) return 'nothing'
  const { account_id, key } = simulation.traders[ownerOf(simulation, order)]!
  const cancel_nonce = nextCancelNonce(simulation, key)
  const order_id = Uint8Array.fromHex(order.order_id)
  return ask(simulation, {
    kind: 'cancel',
    account_id,
    trading_key: key,
    signature: SIGNATURE,
    order_id,
    cancel_nonce,
  })
}

export function cancelAll(simulation: Simulation): Came {
  const { random, traders } = simulation
  const { account_id, key } = random.pick(traders)
  const symbol = random.chance(0.5) ? undefined : random.pick(INSTRUMENTS).symbol
  const cancel_nonce = nextCancelNonce(simulation, key)
  const items = [{ trading_key: key, cancel_nonce, symbol, signature: SIGNATURE }]
  return ask(simulation, { kind: 'cancel_all', account_id, items })
}

/** Armed, renewed, disarmed, and left to fire. */
export function deadMan(simulation: Simulation): Came {
  const { random, traders } = simulation
  const { account_id, key } = random.pick(traders)
  const timeout_slots = random.chance(0.3) ? 0 : random.between(1, 20)
  const cancel_nonce = nextCancelNonce(simulation, key)
  const body = { account_id, trading_key: key, cancel_nonce, timeout_slots, signature: SIGNATURE }
  return ask(simulation, { kind: 'dead_man', ...body })
}

/** A socket arms cancel-on-disconnect; when it is armed it leaves. */
export function disconnect(simulation: Simulation): Came {
  const { random, traders, venue } = simulation
  const { account_id } = random.pick(traders)
  const origin = `${account_id} socket`
  const armed = venue.state.accounts.get(account_id)!.armed.has(origin)
  if (armed) return ask(simulation, { kind: 'disconnected', account_id, origin })
  return ask(simulation, { kind: 'arm_disconnect', account_id, origin, armed: true })
}

/** For a few slots the instrument takes no orders and holds no auctions. */
export async function pauseInstrument(simulation: Simulation): Promise<Came> {
  const { symbol } = simulation.random.pick(INSTRUMENTS)
  ask(simulation, { kind: 'instrument_status', symbol, status: 'paused' })
  const refused = place(simulation)
  if (refused === 'instrument_paused') simulation.count('place: instrument_paused')
  for (let slots = 0; slots < 3; slots++) await simulation.tick()
  return ask(simulation, { kind: 'instrument_status', symbol, status: 'active' })
}

/** Prices of all oracle instruments; between two days they are stale and auctions are skipped. */
export function publish(simulation: Simulation): Came {
  const { random, venue } = simulation
  for (const { symbol, oracle } of INSTRUMENTS) {
    if (!oracle) continue
    const price = TICK * BigInt(REFERENCE_TICKS + random.between(-15, 15)) + BigInt(random.between(0, 999))
    const publish_unix_ms = venue.unix_ms
    ask(simulation, { kind: 'reference', symbol, price, publish_unix_ms, source: ORACLE })
  }
  return undefined
}
