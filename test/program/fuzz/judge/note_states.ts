/** The note tree and the ring of known states as the judge keeps them. */
import { EMPTY_SUBTREES, TREE_DEPTH } from '../../../../protocol/notes/merkle_tree'
import { poseidonEach } from '../../../../protocol/notes/poseidon'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { type Call, must, ownAccount, type Placed, same } from './call'
import { setU32, setU64, u32At, u64At, wordAt } from './fields'

const STATES = 128
const SPACING_SLOTS = 16n
const SPENT_ROOTS = 32
const SPENT_AT = 6_160

export const treeOf = (call: Call, account: Placed): Uint8Array =>
  ownAccount(call, account, call.vault.tree, 2, ACCOUNT_BYTES.tree)
export const ringOf = (call: Call, account: Placed): Uint8Array =>
  ownAccount(call, account, call.vault.ring, 3, ACCOUNT_BYTES.ring)

export const leafCount = (tree: Uint8Array): bigint => u64At(tree, 8)
export const noteRoot = (tree: Uint8Array): Uint8Array => wordAt(tree, 16)
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

/** Keeps the state that is about to be left, unless the newest one is younger than 16 slots. */
export function keepState(ring: Uint8Array, tree: Uint8Array, slot: number): void {
  const [next, length] = [u32At(ring, 8), u32At(ring, 12)]
  const entry = (index: number): number => 16 + 48 * ((index + STATES) % STATES)
  if (length > 0 && BigInt(slot) < u64At(ring, entry(next - 1)) + SPACING_SLOTS) return
  setU64(ring, entry(next), BigInt(slot))
  setU64(ring, entry(next) + 8, leafCount(tree))
  ring.set(noteRoot(tree), entry(next) + 16)
  setU32(ring, 8, (next + 1) % STATES)
  setU32(ring, 12, Math.min(length + 1, STATES))
}

export function mustKnowState(ring: Uint8Array, tree: Uint8Array, count: bigint, root: Uint8Array): void {
  const kept = Array.from({ length: u32At(ring, 12) }, (_, index) => 16 + 48 * index)
  const known =
    (count === leafCount(tree) && same(root, noteRoot(tree))) ||
    kept.some((at) => u64At(ring, at + 8) === count && same(root, wordAt(ring, at + 16)))
  must(known, 'an unknown state is cited')
}

export function keepSpentRoot(ring: Uint8Array, root: Uint8Array): void {
  const [next, length] = [u32At(ring, SPENT_AT), u32At(ring, SPENT_AT + 4)]
  ring.set(root, SPENT_AT + 8 + 32 * next)
  setU32(ring, SPENT_AT, (next + 1) % SPENT_ROOTS)
  setU32(ring, SPENT_AT + 4, Math.min(length + 1, SPENT_ROOTS))
}

export function mustKnowSpentRoot(ring: Uint8Array, current: Uint8Array, root: Uint8Array): void {
  const kept = Array.from({ length: u32At(ring, SPENT_AT + 4) }, (_, index) => SPENT_AT + 8 + 32 * index)
  must(
    same(root, current) || kept.some((at) => same(root, wordAt(ring, at))),
    'an unknown spent root is cited',
  )
}
