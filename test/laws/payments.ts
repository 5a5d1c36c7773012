/** Money that comes, goes and changes its form: deposits, withdrawals and reshapes of a simulation. */

import { decodeBase58 } from '../../protocol/base58'
import { compareBytes, toHex } from '../../protocol/bytes'
import { LOT, SIGNATURE } from '../kit/venue/machine_world'
import type { Came } from './operations'
import { MINTS, REFERENCE_TICKS, USDC } from './sim_settings'
import { type Simulation, TRADERS } from './simulation'
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
