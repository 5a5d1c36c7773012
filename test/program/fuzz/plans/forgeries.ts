/** Plans of a thief who can do the arithmetic: own trees, own notes, proofs of the wrong thing. Never due. */
import { MerkleTree } from '../../../../protocol/notes/merkle_tree'
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../../protocol/notes/notes'
import { SpentTree } from '../../../../protocol/notes/spent_tree'
import {
  escapeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../../protocol/vault/exits'
import type { Note, World } from '../world'
import type { Planner } from './plan'
import { citedState, destinationOf } from './settle'

/** A note of the thief's that no vault ever appended, as leaf 0 of a tree of its own. */
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

/** A request for an unspent note refused by a spent tree of the thief's, or by the leaf beside the note. */
export const planForgedRefusal: Planner = (world) => {
  const open = world.unspent().filter((note) => world.requestOf(note))
  if (open.length === 0) return undefined
  const { nullifier } = world.chance.pick(open)
  const own = new SpentTree()
  own.insert([nullifier])
  const tree = world.chance.oneIn(3) ? world.spent : own
  const { leaf, siblings } = tree.witness(nullifier)
  const instruction = refuseExitInstruction({
    program: world.program,
    refuser: world.attacker,
    nullifier,
    cited_spent_root: world.chance.oneIn(3) ? world.spent.root() : tree.root(),
    next_value: leaf.next_value,
    leaf_index: leaf.index,
    path: siblings,
  })
  return { instruction, due: false }
}

/** The leaf whose next is the note's nullifier, the note's own leaf, or one of an empty tree. */
function absenceOf(world: World, { nullifier }: Note) {
  const empty = new SpentTree()
  const { leaf, siblings, present } = world.spent.witness(nullifier)
  if (!present || world.chance.oneIn(3)) return empty.witness(nullifier)
  if (world.chance.oneIn(2)) return { leaf, siblings }
  const below = nullifier.slice()
  below[31]! -= 1
  return world.spent.witness(below)
}

/** A spent, an escaped or an invented note escapes. */
export const planForgedEscape: Planner = (world) => {
  const unspent = new Set(world.unspent())
  const gone = world.notes.filter((note) => !unspent.has(note))
  const invented = inventedNote(world)
  const real = gone.length > 0 && !world.chance.oneIn(3)
  const note = real ? world.chance.pick(gone) : invented.note
  const { leaf, siblings } = real ? absenceOf(world, note) : world.spent.witness(note.nullifier)
  const instruction = escapeInstruction({
    program: world.program,
    owner: note.owner,
    payer: world.sponsor,
    mint: note.mint,
    token_program: note.token_program,
    destination: destinationOf(world, note, true),
    opening: note,
    nullifier: note.nullifier,
    low_value: leaf.value,
    low_next: leaf.next_value,
    low_index: leaf.index,
    path: real ? world.tree.siblings(note.leaf_index) : invented.tree.siblings(0),
    low_path: siblings,
  })
  return { instruction, due: false }
}
