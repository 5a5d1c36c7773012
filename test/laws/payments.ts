/** Withdrawals, reshapes and deposits of a simulation, and exits without the venue. */
import type { Note } from '../../engine/machine/state/note'
import { spentBatch } from '../../engine/machine/state/past'
import { decodeBase58 } from '../../protocol/base58'
import { compareBytes, equalBytes, toHex } from '../../protocol/bytes'
import { noteInner, nullifierOf } from '../../protocol/notes/notes'
import { exitRequestAddress } from '../../protocol/vault/addresses'
import { refuseExitInstruction, requestExitInstruction } from '../../protocol/vault/exits'
import { USDC } from '../../sandbox/environment'
import { LOT, SIGNATURE } from '../kit/venue/machine_world'
import type { OpenNote } from './holdings'
import type { Came } from './operations'
import { FAIR, type Weather } from './relay'
import { MINTS, REFERENCE_TICKS } from './sim_settings'
import { type KnownNote, type Simulation, TRADERS } from './simulation'
import { isCrowded, nextNonce, type Usable, usable } from './usable'

/** Reshapes in the place of a deposit while there are too many notes. */
const SWEEPS = 4
/** Of each mint. */
const NOTES_FIRST = 2

const sum = (notes: readonly Usable[]): bigint => notes.reduce((total, { amount }) => total + amount, 0n)

/** The poorest account of a mint gets enough of it for several orders, so that trading goes on. */
export async function deposit(simulation: Simulation): Promise<Came> {
  const { random } = simulation
  if (isCrowded(simulation)) {
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
    nonce: nextNonce(simulation, key),
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
    nonce: nextNonce(simulation, key),
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
