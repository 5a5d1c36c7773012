/** The append-only note tree's arithmetic: depth 32, `node = Poseidon(left, right)`, empty leaf 0. */
import { poseidonOf } from './poseidon'

export const TREE_DEPTH = 32

export function treeNode(left: Uint8Array, right: Uint8Array): Uint8Array {
  return poseidonOf(left, right)
}

/** EMPTY_SUBTREES[h] is the root of an empty subtree of height h; the last one is the empty tree's root. */
export const EMPTY_SUBTREES: readonly Uint8Array[] = (() => {
  const roots: Uint8Array[] = [new Uint8Array(32)]
  for (let height = 0; height < TREE_DEPTH; height++) roots.push(treeNode(roots[height]!, roots[height]!))
  return roots
})()

/** The root a leaf leads to through its 32 siblings, from the leaf upwards. */
export function rootFromPath(leaf: Uint8Array, index: number, siblings: readonly Uint8Array[]): Uint8Array {
  if (siblings.length !== TREE_DEPTH) throw new RangeError('expected 32 siblings')
  let node = leaf
  let place = index
  for (const sibling of siblings) {
    node = place % 2 === 1 ? treeNode(sibling, node) : treeNode(node, sibling)
    place = Math.floor(place / 2)
  }
  return node
}
