/** Notes, the note tree, the spent log and the ring of known states as the judge keeps them. */
import { TREE_DEPTH } from '../../../../protocol/limits'
import {
  EMPTY_SPENT_SUBTREES,
  EMPTY_SUBTREES,
  SPENT_LOG_DEPTH,
  spentLogLeaf,
} from '../../../../protocol/notes/merkle_tree'
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../../protocol/notes/notes'
import { poseidonEach } from '../../../../protocol/notes/poseidon'
import { sha256 } from '../../../../protocol/sha256'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { rootFromPath } from '../../../kit/root_from_path'
import {
  type Call,
  type Fields,
  must,
  mustBeElement,
  ownAccount,
  type Placed,
  same,
  setU32,
  setU64,
  u32At,
  u64At,
  wordAt,
} from './call'

type Opening = { form: number; amount: bigint; blinding: Uint8Array; leaf_index: bigint }

export function readOpening(fields: Fields): Opening {
  const opening = {
    form: fields.u8(),
    amount: fields.u64(),
    blinding: fields.word(),
    leaf_index: fields.u64(),
  }
  must(opening.form <= 1, 'a form of note that is none')
  mustBeElement(opening.blinding)
  return opening
}

/** The note of an owner. */
export function openNote(
  { form, amount, blinding, leaf_index }: Opening,
  mint: Uint8Array,
  owner: Uint8Array,
): { commitment: Uint8Array; nullifier: Uint8Array } {
  const note = { mint, amount, inner: noteInner(owner, blinding) }
  const commitment =
    form === 1 ? depositCommitment({ ...note, leaf_index: Number(leaf_index) }) : settlementCommitment(note)
  return { commitment, nullifier: nullifierOf(commitment, blinding) }
}

export function rootOf(leaf: Uint8Array, index: bigint, path: readonly Uint8Array[]): Uint8Array {
  must(index < 1n << 40n, 'a leaf index out of range')
  return rootFromPath(leaf, Number(index), path)
}

const STATES = 120
const STATE_BYTES = 80
const SPACING_SLOTS = 18n
const [SPENT_ROOT_AT, SPENT_FRONTIER_AT] = [1_328, 1_360]

export const treeOf = (call: Call, account: Placed): Uint8Array =>
  ownAccount(call, account, call.vault.tree, 2, ACCOUNT_BYTES.tree)
export const ringOf = (call: Call, account: Placed): Uint8Array =>
  ownAccount(call, account, call.vault.ring, 3, ACCOUNT_BYTES.ring)

export const leafCount = (tree: Uint8Array): bigint => u64At(tree, 8)
const noteRoot = (tree: Uint8Array): Uint8Array => wordAt(tree, 16)
export const spentRoot = (tree: Uint8Array): Uint8Array => wordAt(tree, SPENT_ROOT_AT)
const frontierAt = (height: number): number => 48 + 32 * height

/** Appends level by level: root, count, and the left siblings that a next leaf will need. */
export function appendLeaves(tree: Uint8Array, leaves: readonly Uint8Array[]): void {
  if (leaves.length === 0) return
  let first = Number(leafCount(tree))
  const total = first + leaves.length
  must(total <= 2 ** TREE_DEPTH, 'the tree is full')
  let nodes = [...leaves]
  for (let height = 0; height < TREE_DEPTH; height++) {
    const stored = wordAt(tree, frontierAt(height))
    const complete = Math.floor(total / 2 ** height)
    if (complete % 2 === 1 && complete > first) tree.set(nodes[complete - 1 - first]!, frontierAt(height))
    if (first % 2 === 1) nodes.unshift(stored)
    if (nodes.length % 2 === 1) nodes.push(EMPTY_SUBTREES[height]!)
    const hashes = poseidonEach(2, Buffer.concat(nodes))
    nodes = Array.from({ length: nodes.length / 2 }, (_, at) => hashes.slice(32 * at, 32 * at + 32))
    first = Math.floor(first / 2)
  }
  tree.set(nodes[0]!, 16)
  setU64(tree, 8, BigInt(total))
}

/** Keeps the state that is about to be left, unless the newest one is younger than 18 slots. */
export function keepState(ring: Uint8Array, tree: Uint8Array, slot: number): void {
  const [next, length] = [u32At(ring, 8), u32At(ring, 12)]
  const entry = (index: number): number => 16 + STATE_BYTES * ((index + STATES) % STATES)
  if (length > 0 && BigInt(slot) < u64At(ring, entry(next - 1)) + SPACING_SLOTS) return
  setU64(ring, entry(next), BigInt(slot))
  setU64(ring, entry(next) + 8, leafCount(tree))
  ring.set(noteRoot(tree), entry(next) + 16)
  ring.set(spentRoot(tree), entry(next) + 48)
  setU32(ring, 8, (next + 1) % STATES)
  setU32(ring, 12, Math.min(length + 1, STATES))
}

export function mustKnowState(ring: Uint8Array, tree: Uint8Array, count: bigint, root: Uint8Array): void {
  const kept = Array.from({ length: u32At(ring, 12) }, (_, index) => 16 + STATE_BYTES * index)
  const known =
    (count === leafCount(tree) && same(root, noteRoot(tree))) ||
    kept.some((at) => u64At(ring, at + 8) === count && same(root, wordAt(ring, at + 16)))
  must(known, 'an unknown state is cited')
}

/** Appends the leaf of the batch behind `last_batch` others. */
export function appendBatch(tree: Uint8Array, last_batch: number, nullifiers: readonly Uint8Array[]): void {
  must(last_batch < 2 ** SPENT_LOG_DEPTH, 'the spent log is full')
  let node = spentLogLeaf(last_batch + 1, nullifiers)
  let complete = true
  for (let height = 0; height < SPENT_LOG_DEPTH; height++) {
    const at = SPENT_FRONTIER_AT + 32 * height
    const isRight = Math.floor(last_batch / 2 ** height) % 2 === 1
    if (!isRight && complete) tree.set(node, at)
    complete &&= isRight
    const pair = isRight ? [wordAt(tree, at), node] : [node, EMPTY_SPENT_SUBTREES[height]!]
    node = sha256(Uint8Array.of(1), ...pair)
  }
  tree.set(node, SPENT_ROOT_AT)
}

export function mustKnowSpentRoot(ring: Uint8Array, tree: Uint8Array, root: Uint8Array): void {
  const kept = Array.from({ length: u32At(ring, 12) }, (_, index) => 16 + STATE_BYTES * index)
  const known = same(root, spentRoot(tree)) || kept.some((at) => same(root, wordAt(ring, at + 48)))
  must(known, 'an unknown spent root is cited')
}
