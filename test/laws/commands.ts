/** Requests of traders, oracles and the operator to a simulated venue: orders, payments, deposits, and exits without it. */
import type { CommandBody, NoteFact, PlaceFields } from '../../engine/commands'
import type { Note } from '../../engine/machine/state/note'
import type { Order } from '../../engine/machine/state/order'
import { spentBatch } from '../../engine/machine/state/past'
import type { State } from '../../engine/machine/state/state'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { compareBytes, equalBytes, toHex } from '../../protocol/bytes'
import { noteInner, nullifierOf } from '../../protocol/notes/notes'
import { exitRequestAddress } from '../../protocol/vault/addresses'
import { refuseExitInstruction, requestExitInstruction } from '../../protocol/vault/exits'
import type { OrderType, Side } from '../../protocol/wire/trading'
import { USDC } from '../../sandbox/environment'
import type { Random } from '../kit/random'
import { FEE_BPS, LOT, SIGNATURE, TICK } from '../kit/venue/machine_world'
import type { OpenNote } from './batch_laws'
import type { Came } from './operations'
import { FAIR, type Weather } from './relay'
import { INSTRUMENTS, MINTS, ORACLE, REFERENCE_TICKS } from './sim_venue'
import { type KnownNote, type Simulation, TRADERS } from './simulation'

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
    nonce: nextNonce(simulation, key, 'place_nonce'),
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
  const cancel_nonce = nextNonce(simulation, key, 'cancel_nonce')
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
  const cancel_nonce = nextNonce(simulation, key, 'cancel_nonce')
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
  const cancel_nonce = nextNonce(simulation, key, 'cancel_nonce')
  const items = [{ trading_key: key, cancel_nonce, symbol, signature: SIGNATURE }]
  return ask(simulation, { kind: 'cancel_all', account_id, items })
}

/** Armed, renewed, disarmed, and left to fire. */
export function deadMan(simulation: Simulation): Came {
  const { random, traders } = simulation
  const { account_id, key } = random.pick(traders)
  const timeout_slots = random.chance(0.3) ? 0 : random.between(1, 20)
  const cancel_nonce = nextNonce(simulation, key, 'cancel_nonce')
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

/** Reshapes in the place of a deposit while there are too many notes. */
const SWEEPS = 4
/** Of each mint. */
const NOTES_FIRST = 2

const sum = (notes: readonly Usable[]): bigint => notes.reduce((total, { amount }) => total + amount, 0n)

/** The poorest account of a mint gets enough of it for several orders, so that trading goes on. */
export async function deposit(simulation: Simulation): Promise<Came> {
  const { random } = simulation
  if (simulation.venue.state.notes.size + simulation.holdings.unopened.size > NOTES_MAX) {
    for (let at = 0; at < SWEEPS; at++) reshape(simulation)
    return 'crowded'
  }
  const mint = random.pick(MINTS)
  const wealth = Array.from({ length: TRADERS }, (_, owner) => sum(usable(simulation, owner, mint)))
  const poorest = wealth.reduce((least, one, owner) => (one < wealth[least]! ? owner : least), 0)
  const owner = random.chance(0.8) ? poorest : random.between(0, TRADERS - 1)
  await depositNote(simulation, owner, mint)
  return undefined
}

async function depositNote(simulation: Simulation, owner: number, mint: string): Promise<void> {
  const { random } = simulation
  const lot = mint === USDC ? BigInt(REFERENCE_TICKS) : LOT
  const amount = lot * BigInt(random.between(100, 600)) + BigInt(random.between(0, 99))
  await simulation.deposit(owner, decodeBase58(mint, 32)!, amount)
}

/** Every trader begins with notes of every mint. */
export async function fund(simulation: Simulation): Promise<void> {
  for (let owner = 0; owner < TRADERS; owner++) {
    for (const mint of MINTS) {
      for (let note = 0; note < NOTES_FIRST; note++) await depositNote(simulation, owner, mint)
    }
  }
  await simulation.quiesce()
}

/** Part of a note or all of it, to an account that can be paid or to one that cannot. */
export function withdraw(simulation: Simulation): Came {
  const { random, venue, traders, chain } = simulation
  const owner = random.between(0, TRADERS - 1)
  const notes = usable(simulation, owner).filter(({ amount }) => amount >= 20n)
  if (notes.length === 0) return 'nothing'
  const smallest = notes.reduce((least, one) => (one.amount < least.amount ? one : least))
  const note = random.chance(0.6) ? smallest : random.pick(notes)
  const { account_id, key } = traders[owner]!
  const all = note.amount - 3n
  const part = all - (all * BigInt(random.between(0, 90))) / 100n
  const outcome = venue.run({
    kind: 'withdraw',
    account_id,
    withdrawal_id: random.bytes(16),
    trading_key: key,
    commitment: note.commitment,
    destination: random.pick(simulation.payees.get(toHex(decodeBase58(note.mint, 32)!))!),
    amount: random.chance(0.5) ? all : part,
    nonce: nextNonce(simulation, key, 'place_nonce'),
    expiry_slot: chain.tip + 50,
    change_anchor: random.element(),
    signature: SIGNATURE,
    opening: note.opening,
  })
  return outcome.ok ? undefined : outcome.code
}

/** Merges up to four notes of one mint into one or two, or splits one. */
export function reshape(simulation: Simulation): Came {
  const { random, venue, traders, chain } = simulation
  const owner = random.between(0, TRADERS - 1)
  // Dust merges first, or a long simulation would hold little else.
  const ascending = usable(simulation, owner, random.pick(MINTS)).sort((a, b) =>
    a.amount < b.amount ? -1 : 1,
  )
  const notes = ascending.slice(0, random.chance(0.85) ? 4 : 1)
  const total = sum(notes)
  if (notes.length === 0 || total < 20n) return 'nothing'
  const { account_id, key } = traders[owner]!
  const part = (total * BigInt(random.between(10, 90))) / 100n
  notes.sort((a, b) => compareBytes(a.commitment, b.commitment))
  const outcome = venue.run({
    kind: 'reshape',
    account_id,
    reshape_id: random.bytes(16),
    trading_key: key,
    inputs: notes.map(({ commitment }) => commitment),
    amounts: notes.length > 1 && random.chance(0.9) ? [total] : [part, total - part],
    anchor: random.element(),
    nonce: nextNonce(simulation, key, 'place_nonce'),
    expiry_slot: chain.tip + 50,
    signature: SIGNATURE,
    openings: notes.map(({ opening }) => opening),
  })
  return outcome.ok ? undefined : outcome.code
}

type Asked = OpenNote & { form: 'settlement' | 'deposit' }
const DROPPED: Weather = { ...FAIR, dropped: true }

/** Asks for a note that is free or that the venue has never seen. */
export async function exitAnyNote(simulation: Simulation): Promise<Came> {
  await simulation.quiesce()
  const known = openings(simulation, [...simulation.venue.state.notes.values()].filter(isFree))
  const unopened = [...simulation.holdings.unopened.values()].map(
    (one): Asked => ({ ...one, form: 'deposit' }),
  )
  return request(simulation, simulation.random.pickIfAny([...known, ...unopened]))
}

/** Asks for the note behind a live order, which ends, at the latest with the decision of its batch. */
export async function exitLiveOrder(simulation: Simulation): Promise<Came> {
  await simulation.quiesce()
  const { venue, random } = simulation
  const notes = openings(
    simulation,
    [...venue.state.orders.values()].map(({ collateral }) => collateral),
  )
  const note = random.pickIfAny(notes)
  const came = await request(simulation, note)
  if (came !== undefined) return came
  // A member of a closed batch keeps its note until the batch is decided.
  for (let slots = 0; venue.state.closed !== undefined && slots < 400; slots++) await simulation.tick(FAIR)
  const collateral = toHex(note!.commitment)
  const left = [...venue.state.orders.values()].some(
    (order) => order.collateral.commitment?.toHex() === collateral,
  )
  if (left) throw new Error('an order outlived the exit of its note')
  return undefined
}

/** Asks for a note that a batch spends which has not landed: the batch wins, the request is rejected. */
export async function exitUnlanded(simulation: Simulation): Promise<Came> {
  await simulation.quiesce()
  const { venue, random } = simulation
  // Something is packed while the chain takes nothing.
  for (let asked = 0; asked < 4; asked++) withdraw(simulation)
  await simulation.tick(DROPPED)
  const inputs = [...venue.state.settlement.batches.values()].flatMap((batch) => batch.inputs)
  const note = random.pickIfAny(openings(simulation, inputs))
  const came = await request(simulation, note, DROPPED)
  return came ?? refuse(simulation, note!)
}

/** Any sender of the proof closes a request for a spent note. */
export async function exitSpentNote(simulation: Simulation): Promise<Came> {
  await simulation.quiesce()
  const { venue, random } = simulation
  const spent = openings(simulation, simulation.spent)
  const note = random.pickIfAny(spent.filter(({ nullifier }) => venue.state.nullifiers.has(nullifier)))
  const came = await request(simulation, note)
  return came ?? refuse(simulation, note!)
}

/** Proves on chain that the note is spent. */
async function refuse(simulation: Simulation, { nullifier }: Asked): Promise<Came> {
  await simulation.quiesce()
  const { chain, venue } = simulation
  const spent = spentBatch(venue.state, undefined, nullifier)
  const { config, tree } = chain.vault()
  const log = venue.trees.spent
  const root = log.root(config.last_batch)
  if (spent === undefined || !equalBytes(root, tree.spent_root))
    throw new Error('a spent note is not in the log')
  const { key: refuser, seed } = simulation.wallet
  const { batch_id: batch, nullifiers } = spent
  const path = log.siblings(batch - 1, config.last_batch)
  const proof = { cited_spent_root: root, batch, nullifiers, path }
  await chain.send(refuseExitInstruction({ program: chain.program, refuser, nullifier, ...proof }), [seed])
  const events = await simulation.tick()
  if (!events.some(({ kind }) => kind === 'exit_refused')) throw new Error('a spent note was not refused')
  simulation.count('exits refused')
  return undefined
}

const isFree = ({ status }: Note): boolean => status === 'free'
const openings = (simulation: Simulation, notes: readonly KnownNote[]): Asked[] =>
  notes.flatMap((note) => openingOf(simulation, note) ?? [])

/** The owner's opening of a venue's note, once it is in the finalized tree. */
function openingOf({ venue, traders }: Simulation, note: KnownNote): Asked | undefined {
  const { state } = venue
  const owner = traders.findIndex(({ key }) => equalBytes(key, note.owner))
  if (owner === -1 || note.commitment === undefined || note.blinding === undefined) return undefined
  const { commitment } = note
  const leaf_index = state.leaves.indexOf(commitment)
  if (leaf_index === undefined) return undefined
  const { blinding, amount } = note
  const nullifier = nullifierOf(commitment, blinding)
  // Outputs of a settlement carry no leaf index in their commitment.
  const form = note.leaf_index === undefined ? 'settlement' : 'deposit'
  const { bytes: mint } = state.mints[note.mint]!
  return { owner, mint, amount, blinding, leaf_index, commitment, nullifier, form }
}

async function request(simulation: Simulation, note: Asked | undefined, weather?: Weather): Promise<Came> {
  const { chain, venue, random, traders, refund_blindings } = simulation
  if (note === undefined) return 'nothing'
  const { owner, mint, amount, blinding, leaf_index, nullifier, form } = note
  if (chain.data(exitRequestAddress(chain.program, nullifier)) !== undefined) return 'requested already'
  const { key, seed } = traders[owner]!
  const { notes } = venue.trees
  const refund_blinding = random.element()
  refund_blindings.set(toHex(nullifier), { owner, blinding: refund_blinding })
  const { key: payer, seed: payer_seed } = simulation.wallet
  const instruction = requestExitInstruction({
    program: chain.program,
    owner: key,
    payer,
    mint,
    opening: { form, amount, blinding, leaf_index },
    nullifier,
    cited_leaf_count: notes.leaf_count,
    cited_root: notes.root(),
    destination: random.pick(simulation.payees.get(toHex(mint))!),
    refund_inner: noteInner(key, refund_blinding),
    path: notes.siblings(leaf_index),
  })
  await chain.send(instruction, [payer_seed, seed])
  const events = await simulation.tick(weather)
  return events.some(({ kind }) => kind === 'exit_requested') ? undefined : 'lost'
}

/** `opening` where the venue does not have the note's opening. */
type Usable = { mint: string; commitment: Uint8Array; amount: bigint; opening: NoteFact | undefined }

/** No deposits above this many notes: each step checks every note. */
const NOTES_MAX = 320

function usable({ venue, traders, holdings }: Simulation, owner: number, mint?: string): Usable[] {
  const { state } = venue
  const { key } = traders[owner]!
  const found: Usable[] = []
  for (const note of state.notes.values()) {
    if (note.status !== 'free' || !equalBytes(note.owner, key)) continue
    const { text: of } = state.mints[note.mint]!
    if (mint !== undefined && of !== mint) continue
    const commitment = note.commitment!
    found.push({ mint: of, commitment, amount: note.amount, opening: undefined })
  }
  const bytes = mint === undefined ? undefined : decodeBase58(mint, 32)!
  for (const note of holdings.unopened.values()) {
    if (note.owner !== owner || note.leaf_index >= state.leaves.size) continue
    if (bytes !== undefined && !equalBytes(note.mint, bytes)) continue
    const { commitment, amount } = note
    found.push({
      mint: encodeBase58(note.mint),
      commitment,
      amount,
      opening: { ...note, leaf: note.leaf_index },
    })
  }
  return found
}

function nextNonce({ venue }: Simulation, key: Uint8Array, of: 'place_nonce' | 'cancel_nonce'): bigint {
  return (venue.state.keys.get(encodeBase58(key))?.[of] ?? 0n) + 1n
}
