/** Plans of note owners, of everybody and of a thief: exit requests, the freeze, claims, forged proofs. */
import { toHex } from '../../../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../../../protocol/notes/merkle_tree'
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../../protocol/notes/notes'
import { decodeMintRecord, type EscapeClaim, type ExitRequest } from '../../../../protocol/vault/accounts'
import { mintRecordAddress } from '../../../../protocol/vault/addresses'
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
import type { Note, World } from '../world'
import { due, type Planner } from './plan'
import { citedState, destinationOf } from './settle'

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

/** What exits and claims show of a note: its opening, and its path to a root. */
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

/** What a payment asks for: the world's model of it is the judge, so that its due ones are only the plainest. */
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
