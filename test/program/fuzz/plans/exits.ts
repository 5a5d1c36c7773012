/** Plans of settlement batches and payments, of note owners, of everybody and of a thief. */
import { compareBytes, toHex } from '../../../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../../../protocol/notes/merkle_tree'
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../../protocol/notes/notes'
import {
  decodeMintRecord,
  decodeRing,
  decodeTree,
  type EscapeClaim,
  type ExitRequest,
} from '../../../../protocol/vault/accounts'
import { mintRecordAddress, vaultTokenAddress } from '../../../../protocol/vault/addresses'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  closeExitInstruction,
  freezeInstruction,
  payEscapeInstruction,
  redirectEscapeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../../protocol/vault/exits'
import {
  growQueueInstruction,
  type PayoutFields,
  payInstruction,
  settleInstruction,
} from '../../../../protocol/vault/settle'
import type { Note, World, WorldMint } from '../world'
import { due, type Plan, type Planner } from './opening'

/** The present state, or now and then an earlier one. */
function citedState(world: World): { leaf_count: number; root: Uint8Array } {
  const tree = decodeTree(world.ledger.get(world.vault.tree).data)!
  const { states } = decodeRing(world.ledger.get(world.vault.ring).data)!
  return states.length > 0 && world.chance.oneIn(3) ? world.chance.pick(states) : tree
}

/** A token account that can be paid, or one of the many things that cannot. */
function destinationOf(world: World, { mint, token_program }: WorldMint, usable: boolean): Uint8Array {
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

/** The rest comes back as outputs, so that every mint is conserved. */
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

const MIN_EXIT = 500n

const pickFrom = (world: World, notes: readonly Note[]): Note | undefined =>
  notes.length === 0 ? undefined : world.chance.pick(notes)

/** Siblings of a leaf while the tree had `leaf_count` leaves. */
function siblingsAt(world: World, leaf_count: number, index: number): Uint8Array[] {
  if (leaf_count === world.tree.leaf_count) return world.tree.siblings(index)
  const earlier = new MerkleTree()
  earlier.append(Array.from({ length: leaf_count }, (_, at) => world.tree.leaf(at)))
  return earlier.siblings(index)
}

/** Shown by exits and claims of a note: its opening, and its path to a root. */
const proven = (
  world: World,
  note: Note,
  cited: { leaf_count: number; root: Uint8Array },
  path: Uint8Array[],
) => ({
  program: world.program,
  owner: note.owner,
  payer: world.sponsor,
  mint: note.mint,
  opening: note,
  nullifier: note.nullifier,
  cited_leaf_count: cited.leaf_count,
  cited_root: cited.root,
  path,
})

/** Also for a note that is spent already: only a proof refuses it. */
export const planRequestExit: Planner = (world) => {
  const cited = citedState(world)
  const note = pickFrom(
    world,
    world.notes.filter((one) => one.leaf_index < cited.leaf_count && one.amount >= MIN_EXIT),
  )
  if (note === undefined) return undefined
  const instruction = requestExitInstruction({
    ...proven(world, note, cited, siblingsAt(world, cited.leaf_count, note.leaf_index)),
    destination: destinationOf(world, note, !world.chance.oneIn(4)),
    refund_inner: world.newInner(),
  })
  return { instruction, due: !world.config().frozen && !world.requestOf(note) }
}

export const planRefuseExit: Planner = (world) => {
  const refused = world.notes.filter((one) => world.requestOf(one)?.served === false && world.isSpent(one))
  const note = pickFrom(world, refused)
  if (note === undefined) return undefined
  const batch = world.spent_in.get(toHex(note.nullifier))!
  const instruction = refuseExitInstruction({
    program: world.program,
    refuser: world.attacker,
    nullifier: note.nullifier,
    cited_spent_root: world.spent.root(),
    batch,
    nullifiers: world.batches[batch - 1]!,
    path: world.spent.siblings(batch - 1),
  })
  return due(instruction)
}

const anyRequest = (world: World): ExitRequest | undefined => {
  const note = pickFrom(
    world,
    world.notes.filter((one) => world.requestOf(one)),
  )
  return note && world.requestOf(note)
}

/** With or without reason: whether it must land, the state says. */
export const planFreeze: Planner = (world) => {
  const request = anyRequest(world)
  if (request === undefined) return undefined
  const { exit_delay_s, outage_at_s, outage_extra_s } = world.config()
  const open = request.deadline_s - exit_delay_s < outage_at_s && outage_at_s <= request.deadline_s
  const last_s = request.deadline_s + (open ? outage_extra_s : 0)
  const overdue = last_s < world.clock.unix_s && !request.served
  const instruction = freezeInstruction(world.program, request.nullifier)
  return { instruction, due: overdue && !world.config().frozen }
}

export const planCloseExit: Planner = (world) => {
  const request = anyRequest(world)
  if (request === undefined) return undefined
  const { nullifier, bond_payer, served } = request
  const instruction = closeExitInstruction({ program: world.program, nullifier, bond_payer })
  return { instruction, due: served || world.config().frozen }
}

/** Also for a note that is spent: only a challenge cancels it. */
export const planClaimEscape: Planner = (world) => {
  const cited = citedState(world)
  const known = world.notes.filter((one) => one.leaf_index < cited.leaf_count && one.amount > 0n)
  if (known.length === 0) return undefined
  const note = world.chance.pick(known)
  const instruction = claimEscapeInstruction({
    ...proven(world, note, cited, siblingsAt(world, cited.leaf_count, note.leaf_index)),
    destination: destinationOf(world, note, !world.chance.oneIn(4)),
  })
  return { instruction, due: world.config().frozen && world.claimOf(note) === undefined }
}

/** A note with a claim, and the claim; mostly an open one. */
function anyClaim(world: World, isWanted: (note: Note) => boolean): [Note, EscapeClaim] | undefined {
  const claimed = world.notes.filter((note) => world.claimOf(note) !== undefined && isWanted(note))
  const open = claimed.filter((note) => world.claimOf(note)!.state === 'open')
  const some = open.length > 0 && !world.chance.oneIn(5) ? open : claimed
  if (some.length === 0) return undefined
  const note = world.chance.pick(some)
  return [note, world.claimOf(note)!]
}

export const planChallengeEscape: Planner = (world) => {
  const found = anyClaim(world, (note) => world.isSpent(note))
  if (found === undefined) return undefined
  const [{ mint, nullifier }, claim] = found
  const batch = world.spent_in.get(toHex(nullifier))!
  const instruction = challengeEscapeInstruction({
    program: world.program,
    challenger: world.attacker,
    mint,
    nullifier,
    cited_spent_root: world.spent.root(),
    batch,
    nullifiers: world.batches[batch - 1]!,
    path: world.spent.siblings(batch - 1),
  })
  return { instruction, due: claim.state === 'open' && claim.rank !== 'refund' }
}

/** Contents of a payment: the world's model of it is the judge, so only its plainest due ones are here. */
export const planPayEscape: Planner = (world) => {
  const found = anyClaim(world, () => true)
  if (found === undefined) return undefined
  const [{ mint, token_program, nullifier }, claim] = found
  const { destination, bond_payer, owner } = claim
  const parties = { destination, bond_payer, owner }
  const accepts_less = world.chance.oneIn(3)
  const instruction = payEscapeInstruction({
    program: world.program,
    nullifier,
    mint,
    token_program,
    ...parties,
    accepts_less,
  })
  const { frozen_at_s, exit_delay_s } = world.config()
  const due_s = Math.max(frozen_at_s + exit_delay_s, claim.claimed_at_s) + exit_delay_s
  const is_due = claim.state === 'open' && world.clock.unix_s >= due_s
  const full = accepts_less || claim.rank !== 'late'
  const record = decodeMintRecord(world.ledger.get(mintRecordAddress(world.program, mint)).data)!
  const { owner: holder, data } = world.ledger.get(destination)
  const plain = toHex(holder) === toHex(token_program) && data.length === 165 && data[108] === 1
  const usable =
    plain && toHex(data.slice(0, 32)) === toHex(mint) && toHex(destination) !== toHex(record.vault_token)
  const vault_runs = world.ledger.get(record.vault_token).data[108] === 1
  return { instruction, due: is_due && full && usable && vault_runs }
}

export const planRedirectEscape: Planner = (world) => {
  const found = anyClaim(world, () => true)
  if (found === undefined) return undefined
  const [note, { owner, sequence, state }] = found
  const { nullifier } = note
  const instruction = redirectEscapeInstruction({
    program: world.program,
    owner,
    nullifier,
    sequence: sequence + 1,
    destination: destinationOf(world, note, !world.chance.oneIn(4)),
  })
  return state === 'open' ? due(instruction) : { instruction, due: false }
}

/** A note of the thief's that no vault ever appended, as leaf 0 of a separate tree. */
function inventedNote(world: World): { note: Note; tree: MerkleTree } {
  const mint = world.chance.pick(world.mints)
  const form = world.chance.pick(['deposit', 'settlement'] as const)
  const [amount, blinding, owner] = [
    1_000n + BigInt(world.chance.below(5_000)),
    world.chance.element(),
    world.attacker,
  ]
  const made_of = { mint: mint.mint, amount, inner: noteInner(owner, blinding) }
  const commitment =
    form === 'deposit' ? depositCommitment({ ...made_of, leaf_index: 0 }) : settlementCommitment(made_of)
  const nullifier = nullifierOf(commitment, blinding)
  const tree = new MerkleTree()
  tree.append([commitment])
  return { note: { ...mint, form, amount, blinding, owner, leaf_index: 0, commitment, nullifier }, tree }
}

/** An invented note, proven under its own tree's root or under a root the vault knows. */
export const planForgedRequest: Planner = (world) => {
  const { note, tree } = inventedNote(world)
  const own = { leaf_count: 1, root: tree.root() }
  const cited = world.chance.oneIn(3) ? citedState(world) : own
  const instruction = requestExitInstruction({
    ...proven(world, note, cited, tree.siblings(0)),
    destination: destinationOf(world, note, true),
    refund_inner: world.newInner(),
  })
  return { instruction, due: false }
}

/** A request for an unspent note refused by a log of the thief's, or by another batch of the vault's. */
export const planForgedRefusal: Planner = (world) => {
  const open = world.unspent().filter((note) => world.requestOf(note))
  if (open.length === 0) return undefined
  const { nullifier } = world.chance.pick(open)
  const own = new SpentLog()
  own.append([spentLogLeaf(1, [nullifier])])
  const theirs = world.batches.length > 0 && world.chance.oneIn(3)
  const batch = theirs ? 1 + world.chance.below(world.batches.length) : 1
  const log = theirs ? world.spent : own
  const instruction = refuseExitInstruction({
    program: world.program,
    refuser: world.attacker,
    nullifier,
    cited_spent_root: world.chance.oneIn(3) ? world.spent.root() : log.root(),
    batch,
    nullifiers: theirs && world.chance.oneIn(2) ? world.batches[batch - 1]! : [nullifier],
    path: log.siblings(batch - 1),
  })
  return { instruction, due: false }
}
