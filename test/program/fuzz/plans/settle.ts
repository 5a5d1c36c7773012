/** Plans of settlement batches: trades, withdrawals to good and bad destinations, served exits; and of payments. */
import { compareBytes, toHex } from '../../../../protocol/bytes'
import { decodeRing, decodeTree } from '../../../../protocol/vault/accounts'
import { vaultTokenAddress } from '../../../../protocol/vault/addresses'
import {
  growQueueInstruction,
  type PayoutFields,
  payInstruction,
  settleInstruction,
} from '../../../../protocol/vault/settle'
import type { Note, World, WorldMint } from '../world'
import { due, type Plan, type Planner } from './plan'

/** The present state, or now and then an earlier one. */
export function citedState(world: World): { leaf_count: number; root: Uint8Array } {
  const tree = decodeTree(world.ledger.get(world.vault.tree).data)!
  const { states } = decodeRing(world.ledger.get(world.vault.ring).data)!
  return states.length > 0 && world.chance.oneIn(3) ? world.chance.pick(states) : tree
}

/** A token account that can be paid, or one of the many things that cannot. */
export function destinationOf(world: World, { mint, token_program }: WorldMint, usable: boolean): Uint8Array {
  const owner = world.chance.pick(world.traders)
  if (usable) return world.newToken({ mint, owner }, token_program)
  const other = world.chance.pick(world.mints)
  const unusable: (() => Uint8Array)[] = [
    () => world.newAddress(),
    () => world.attacker,
    () => world.newToken({ mint: other.mint, owner }, other.token_program),
    () => world.newToken({ mint, owner, state: 'frozen' }, token_program),
    () => world.newToken({ mint, owner, state: 'uninitialized' }, token_program),
    () => world.newToken({ mint, owner, extensions: [{ type: 8, value: Uint8Array.of(1) }] }, token_program),
    () =>
      world.newToken({ mint, owner, extensions: [{ type: 7, value: new Uint8Array(900) }] }, token_program),
    () => vaultTokenAddress(world.program, mint),
    () => world.vault.config,
  ]
  return world.chance.pick(unusable)()
}

function split(world: World, total: bigint, parts: number): bigint[] {
  const shares: bigint[] = []
  for (let left = total, at = parts; at > 0; at--) {
    const share = at === 1 ? left : (left * BigInt(world.chance.below(900))) / 1_000n
    shares.push(share)
    left -= share
  }
  return shares
}

function payoutsOf(world: World, notes: readonly Note[], mint: WorldMint): PayoutFields[] {
  return notes.flatMap((note): PayoutFields[] => {
    const request = world.requestOf(note)
    if (request === undefined || world.chance.oneIn(4)) return []
    const { amount, destination, refund_inner: inner } = request
    return [{ mint: mint.mint, destination, amount, inner, nullifier: note.nullifier }]
  })
}

/** What is not paid out comes back as outputs, so that every mint is conserved. */
function withdrawalsOf(world: World, total: bigint, mint: WorldMint): PayoutFields[] {
  if (total === 0n || world.chance.oneIn(2)) return []
  const amounts = split(world, total, 1 + world.chance.below(3)).slice(0, 2)
  return amounts
    .filter((amount) => amount > 0n)
    .map((amount) => ({
      mint: mint.mint,
      destination: destinationOf(world, mint, world.chance.oneIn(2)),
      amount,
      inner: world.newInner(),
    }))
}

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n)

export const planSettle: Planner = (world) => {
  const config = world.config()
  const mint = world.chance.pick(world.mints)
  const own = world.unspent().filter((note) => toHex(note.mint) === toHex(mint.mint))
  const mixed = own.sort(() => world.chance.below(3) - 1)
  // Exits go first in every other batch.
  const asked = world.chance.oneIn(2) ? mixed.filter((note) => world.requestOf(note)) : []
  const notes = [...new Set([...asked, ...mixed])].slice(0, world.chance.below(4))
  const nullifiers = notes.map(({ nullifier }) => nullifier).sort(compareBytes)
  const total = sum(notes.map(({ amount }) => amount))
  const exits = payoutsOf(world, notes, mint)
  const withdrawals = withdrawalsOf(world, total - sum(exits.map(({ amount }) => amount)), mint)
  const { capacity, entries } = world.queue()
  const room = capacity - entries.length >= 8
  const payouts = room ? [...exits, ...withdrawals] : []
  const left = total - sum(payouts.map(({ amount }) => amount))
  const amounts = split(world, left, 1 + world.chance.below(3))
  const commitments = amounts.map((amount) => world.newOutput(mint, amount)).sort(compareBytes)
  const { leaf_count, root } = citedState(world)
  const instruction = settleInstruction({
    program: world.program,
    settlement_signer: config.settlement_signer,
    epoch: config.epoch,
    batch: config.last_batch + 1,
    cited_leaf_count: leaf_count,
    cited_root: root,
    journal_seq: config.journal_seq + 1,
    journal_head: world.chance.bytes(32),
    nullifiers,
    outputs: commitments.map((commitment) => ({ commitment, memo: world.chance.bytes(16) })),
    payouts,
  })
  return { instruction, due: config.epoch > 0 && !config.paused && !config.frozen }
}

/** Some open entries; `refund` asks for their notes. */
function paymentOf(world: World, refund: boolean): Plan | undefined {
  const { entries } = world.queue()
  if (entries.length === 0) return undefined
  const chosen = Array.from({ length: 1 + world.chance.below(3) }, () => world.chance.pick(entries))
  const paid = chosen.map(({ place, number, mint, destination }) => {
    const { token_program } = world.mints.find((one) => toHex(one.mint) === toHex(mint))!
    return { place, number, mint, token_program, destination }
  })
  const old = chosen.every(({ queued_at_s }) => queued_at_s + WEEK_S <= world.clock.unix_s)
  const instruction = payInstruction({ program: world.program, refund, entries: paid })
  return { instruction, due: old || !refund }
}

const WEEK_S = 604_800

export const planPay: Planner = (world) => paymentOf(world, false)
export const planRefund: Planner = (world) => paymentOf(world, true)

/** Larger queues only cost the fuzzer time. */
const CAPACITY_ENOUGH = 120

export const planGrowQueue: Planner = (world) =>
  world.queue().capacity >= CAPACITY_ENOUGH
    ? undefined
    : due(growQueueInstruction(world.program, world.sponsor))
