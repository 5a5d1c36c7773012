/** Plans of note owners and of everybody: exit requests, refusals, the freeze, closings. */
import { toHex } from '../../../../protocol/bytes'
import { MerkleTree } from '../../../../protocol/notes/merkle_tree'
import type { ExitRequest } from '../../../../protocol/vault/accounts'
import {
  closeExitInstruction,
  freezeInstruction,
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
export function siblingsAt(world: World, leaf_count: number, index: number): Uint8Array[] {
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
