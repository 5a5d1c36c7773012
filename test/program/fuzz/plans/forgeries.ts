/** Plans of a thief who can do the arithmetic: own trees, own notes, proofs of the wrong thing. Never due. */
import { MerkleTree } from '../../../../protocol/notes/merkle_tree'
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../../protocol/notes/notes'
import { SpentLog, spentLogLeaf } from '../../../../protocol/notes/spent_log'
import { refuseExitInstruction, requestExitInstruction } from '../../../../protocol/vault/exits'
import type { Note, World } from '../world'
import type { Planner } from './plan'
import { citedState, destinationOf } from './settle'

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
  const { leaf_count, root } = world.chance.oneIn(3) ? citedState(world) : own
  const instruction = requestExitInstruction({
    program: world.program,
    owner: note.owner,
    payer: world.sponsor,
    mint: note.mint,
    opening: note,
    nullifier: note.nullifier,
    cited_leaf_count: leaf_count,
    cited_root: root,
    destination: destinationOf(world, note, true),
    refund_inner: world.newInner(),
    path: tree.siblings(0),
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
