/** What happens to a venue: each operation draws its own chance and does nothing where it finds nothing to do. */
import type { NoteFact, PlaceFields } from '../../engine/commands'
import type { Note } from '../../engine/state/note'
import { encodeBase58 } from '../../protocol/base58'
import { compareBytes, toHex } from '../../protocol/bytes'
import { FEE_BPS, LOT, SIGNATURE, TICK } from '../state/world'
import { exitAnyNote, exitSpentNote } from './exits'
import type { OpenNote } from './holdings'
import { type Simulation, SYMBOL, TRADERS } from './simulation'

type Operation = (simulation: Simulation) => Promise<void> | void
/** An owned note and what opens it, where the venue must be told. */
type Usable = { commitment: Uint8Array; amount: bigint; opening: NoteFact | undefined }

/** By weight. */
export const OPERATIONS: readonly (readonly [weight: number, name: string, run: Operation])[] = [
  [10, 'deposit', deposit],
  [45, 'place', place],
  [4, 'cancel', cancel],
  [6, 'withdraw', withdraw],
  [8, 'reshape', reshape],
  [22, 'tick', async (simulation) => void (await simulation.tick())],
  [4, 'fork', fork],
  [2, 'exit', exitAnyNote],
  [1, 'exit_spent', exitSpentNote],
  [1, 'restart', restart],
  [1, 'day', (simulation) => simulation.venue.sleep(86_400_000)],
]
/** Above this many notes nobody deposits and many withdraw. */
const NOTES_MAX = 300
/** Weights summed up to each operation. */
const ENDS = OPERATIONS.map((_, at) => OPERATIONS.slice(0, at + 1).reduce((sum, [weight]) => sum + weight, 0))
const TOTAL = ENDS.at(-1)!

/** Runs one operation; answers its name. */
export async function operate(simulation: Simulation): Promise<string> {
  const drawn = simulation.random.next() * TOTAL
  const [, name, run] = OPERATIONS[ENDS.findIndex((end) => drawn < end)]!
  await run(simulation)
  simulation.holdings.check(simulation.venue.state, simulation.chain)
  return name
}

async function deposit(simulation: Simulation): Promise<void> {
  const { random, mints } = simulation
  if (isCrowded(simulation)) return
  const owner = random.between(0, TRADERS - 1)
  const base = sells(owner) !== random.chance(0.1)
  const amount = base ? LOT * BigInt(random.between(3, 60)) : BigInt(random.between(500, 8_000))
  await simulation.deposit(owner, base ? mints.base : mints.quote, amount + BigInt(random.between(0, 9)))
}

/** Mostly one side per trader, else self-crossing would refuse most orders. */
const sells = (owner: number): boolean => owner % 2 === 0

function place(simulation: Simulation): void {
  const { random, venue, traders, mints } = simulation
  const owner = random.between(0, TRADERS - 1)
  const { account_id, key } = traders[owner]!
  const side = sells(owner) !== random.chance(0.05) ? 'sell' : 'buy'
  const note = random.pick(usable(simulation, owner, side === 'sell' ? mints.base : mints.quote))
  if (note === undefined) return
  const ticks = random.between(94, 106)
  const most = side === 'sell' ? note.amount / LOT : affordable(note.amount, BigInt(ticks))
  if (most < 1n) return
  const lots = BigInt(random.between(1, Number(most < 40n ? most : 40n)))
  const { tip } = simulation.chain
  const body: PlaceFields = {
    order_id: random.bytes(16),
    trading_key: key,
    symbol: SYMBOL,
    side,
    type: random.pick(['limit', 'limit', 'limit', 'ioc', 'fok'] as const)!,
    amount: lots * LOT,
    price_limit: BigInt(ticks) * TICK,
    min_fill: 0n,
    expiry_slot: tip + random.between(6, 60),
    nonce: nextNonce(simulation, key),
    collateral_commitment: note.commitment,
    anchors: [random.element(), random.element()],
    signature: SIGNATURE,
    opening: note.opening,
    digest: random.bytes(32),
  }
  venue.run({ kind: 'place', account_id, origin: undefined, ...body })
}

/** Lots that a note pays for at a price, fee included. */
function affordable(amount: bigint, ticks: bigint): bigint {
  return (amount * 10_000n) / (ticks * BigInt(10_000 + FEE_BPS)) - 1n
}

function nextNonce({ venue }: Simulation, key: Uint8Array): bigint {
  return (venue.state.keys.get(encodeBase58(key))?.place_nonce ?? 0n) + 1n
}

/** Free notes of the venue's, and final ones it was never shown. */
function usable(simulation: Simulation, owner: number, mint: Uint8Array): Usable[] {
  const { state } = simulation.venue
  const found: Usable[] = []
  for (const note of freeNotes(simulation, owner)) {
    if (toHex(state.mints[note.mint]!.bytes) !== toHex(mint)) continue
    found.push({ commitment: Uint8Array.fromHex(note.commitment!), amount: note.amount, opening: undefined })
  }
  for (const note of simulation.holdings.unopened.values()) {
    const final = note.leaf_index < state.leaves.size
    if (note.owner !== owner || !final || toHex(note.mint) !== toHex(mint)) continue
    found.push({ ...note, opening: note as OpenNote })
  }
  return found
}

function freeNotes({ venue, traders }: Simulation, owner: number): Note[] {
  const text = encodeBase58(traders[owner]!.key)
  return [...venue.state.notes.values()].filter((note) => note.status === 'free' && note.owner === text)
}

function cancel({ random, venue }: Simulation): void {
  const order = random.pick([...venue.state.orders.values()])
  if (order === undefined) return
  const { key } = order
  const order_id = Uint8Array.fromHex(order.order_id)
  const cancel_nonce = key.cancel_nonce + 1n
  const who = { account_id: key.account.account_id, trading_key: key.bytes, signature: SIGNATURE }
  venue.must({ kind: 'cancel', ...who, order_id, cancel_nonce })
}

/** What is checked at every step is every note, so a long simulation keeps their number down. */
const isCrowded = ({ venue, holdings }: Simulation): boolean =>
  venue.state.notes.size + holdings.unopened.size > NOTES_MAX

function withdraw(simulation: Simulation): void {
  const times = isCrowded(simulation) ? 12 : 1
  for (let at = 0; at < times; at++) withdrawOne(simulation)
}

function withdrawOne(simulation: Simulation): void {
  const { random, venue, traders, chain } = simulation
  const owner = random.between(0, TRADERS - 1)
  const note = random.pick(freeNotes(simulation, owner))
  if (note === undefined || note.amount < 20n) return
  const { account_id, key } = traders[owner]!
  const mint = toHex(venue.state.mints[note.mint]!.bytes)
  const amount = note.amount - 3n - (random.chance(0.5) ? 0n : BigInt(random.between(0, 7)))
  venue.run({
    kind: 'withdraw',
    account_id,
    withdrawal_id: random.bytes(16),
    trading_key: key,
    commitment: Uint8Array.fromHex(note.commitment!),
    destination: random.pick(simulation.payees.get(mint)!)!,
    amount,
    nonce: nextNonce(simulation, key),
    expiry_slot: chain.tip + 50,
    change_anchor: random.element(),
    signature: SIGNATURE,
    opening: undefined,
  })
}

/** Merges up to four notes of one mint into one or two, or splits one. */
function reshape(simulation: Simulation): void {
  const { random, venue, traders, chain } = simulation
  const owner = random.between(0, TRADERS - 1)
  const free = freeNotes(simulation, owner)
  const mint = random.pick(free)?.mint
  // Dust merges first, or a long simulation would hold little else.
  const ascending = free.filter((note) => note.mint === mint).sort((a, b) => (a.amount < b.amount ? -1 : 1))
  const notes = ascending.slice(0, random.between(1, 4))
  const total = notes.reduce((sum, note) => sum + note.amount, 0n)
  if (notes.length === 0 || total < 20n) return
  const { account_id, key } = traders[owner]!
  const part = BigInt(random.between(1, 19))
  venue.run({
    kind: 'reshape',
    account_id,
    reshape_id: random.bytes(16),
    trading_key: key,
    inputs: notes.map((note) => Uint8Array.fromHex(note.commitment!)).sort(compareBytes),
    amounts: notes.length > 1 && random.chance(0.7) ? [total] : [part, total - part],
    anchor: random.element(),
    nonce: nextNonce(simulation, key),
    expiry_slot: chain.tip + 50,
    signature: SIGNATURE,
    openings: notes.map(() => undefined),
  })
}

function fork(simulation: Simulation): void {
  const { chain, random } = simulation
  const deepest = Math.min(6, chain.tip - chain.finalized)
  if (deepest >= 1) simulation.fork(random.between(1, deepest))
}

async function restart(simulation: Simulation): Promise<void> {
  simulation.venue.restart()
  await simulation.openEpoch()
}
