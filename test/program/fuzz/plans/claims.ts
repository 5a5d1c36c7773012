/** Plans of a wind-down: claims of spent and unspent notes, challenges, payments, redirects. */
import { toHex } from '../../../../protocol/bytes'
import { decodeMintRecord, type EscapeClaim } from '../../../../protocol/vault/accounts'
import { mintRecordAddress } from '../../../../protocol/vault/addresses'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  payEscapeInstruction,
  redirectEscapeInstruction,
} from '../../../../protocol/vault/claims'
import type { Note, World } from '../world'
import { siblingsAt } from './exits'
import { due, type Planner } from './plan'
import { citedState, destinationOf } from './settle'

/** Also for a note that is spent: only a challenge cancels it. */
export const planClaimEscape: Planner = (world) => {
  const { leaf_count, root } = citedState(world)
  const known = world.notes.filter((one) => one.leaf_index < leaf_count && one.amount > 0n)
  if (known.length === 0) return undefined
  const note = world.chance.pick(known)
  const instruction = claimEscapeInstruction({
    program: world.program,
    owner: note.owner,
    payer: world.sponsor,
    mint: note.mint,
    opening: note,
    nullifier: note.nullifier,
    cited_leaf_count: leaf_count,
    cited_root: root,
    destination: destinationOf(world, note, !world.chance.oneIn(4)),
    path: siblingsAt(world, leaf_count, note.leaf_index),
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
