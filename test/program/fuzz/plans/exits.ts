/** Plans of note owners and of everybody: exit requests, refusals, the freeze, escapes. */
import { MerkleTree } from '../../../../protocol/notes/merkle_tree'
import {
  escapeInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../../protocol/vault/exits'
import type { Note, World } from '../world'
import { isHeld } from './deposit'
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

/** Also for a note that is spent already: only a proof refuses it. */
export const planRequestExit: Planner = (world) => {
  const { leaf_count, root } = citedState(world)
  const note = pickFrom(
    world,
    world.notes.filter((one) => one.leaf_index < leaf_count && one.amount >= MIN_EXIT),
  )
  if (note === undefined) return undefined
  const instruction = requestExitInstruction({
    program: world.program,
    owner: note.owner,
    payer: world.sponsor,
    mint: note.mint,
    opening: note,
    nullifier: note.nullifier,
    cited_leaf_count: leaf_count,
    cited_root: root,
    destination: destinationOf(world, note, !world.chance.oneIn(4)),
    refund_inner: world.newInner(),
    path: siblingsAt(world, leaf_count, note.leaf_index),
  })
  return { instruction, due: !world.config().frozen && !world.requestOf(note) }
}

export const planRefuseExit: Planner = (world) => {
  const refused = world.notes.filter((one) => world.requestOf(one) && world.spent.has(one.nullifier))
  const note = pickFrom(world, refused)
  if (note === undefined) return undefined
  const { leaf, siblings } = world.spent.witness(note.nullifier)
  const instruction = refuseExitInstruction({
    program: world.program,
    refuser: world.attacker,
    nullifier: note.nullifier,
    cited_spent_root: world.spent.root(),
    next_value: leaf.next_value,
    leaf_index: leaf.index,
    path: siblings,
  })
  return due(instruction)
}

/** With or without reason: whether it must land, the state says. */
export const planFreeze: Planner = (world) => {
  const note = pickFrom(
    world,
    world.notes.filter((one) => world.requestOf(one)),
  )
  const request = note && world.requestOf(note)
  if (request === undefined) return undefined
  const overdue = request.deadline_s < world.clock.unix_s
  const { nullifier, bond_payer } = request
  const instruction = freezeInstruction({ program: world.program, nullifier, bond_payer })
  return { instruction, due: overdue || world.config().frozen }
}

export const planEscape: Planner = (world) => {
  const note = pickFrom(world, world.unspent())
  if (note === undefined) return undefined
  const { leaf, siblings } = world.spent.witness(note.nullifier)
  const request = world.requestOf(note)
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
    path: world.tree.siblings(note.leaf_index),
    low_path: siblings,
    ...(request !== undefined && { bond_payer: request.bond_payer }),
  })
  return { instruction, due: world.config().frozen && !isHeld(world, note) }
}
