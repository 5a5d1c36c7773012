/**
 * Builds and checks SHA-256 trees of RFC 6962: the commands of a receipt's group (engine.md "Receipts") and the statements of
 * a log (attestation.md "Location"), whose proofs are those of RFC 9162 section 2.1.
 */

import { equalBytes, toHex } from './bytes'
import { RECEIPT_PATH_MAX } from './limits'
import { sha256 } from './sha256'

const LEAF = Uint8Array.of(0)
const NODE = Uint8Array.of(1)

/** Leaf of one statement: SHA-256(0x00 ‖ body ‖ signature); a modify puts both bodies with their signatures in a row. */
export function treeLeaf(...parts: Uint8Array[]): Uint8Array {
  return sha256(LEAF, ...parts)
}

/**
 * Root (RFC 6962 section 2.1) and all audit paths (section 2.1.1, from the leaf upwards, in hex) of at least one leaf. One
 * pass: computing the path of each leaf separately would hash a group of n commands n times. The text of a node is
 * shared by all paths that contain it.
 */
export function receiptTree(leaves: readonly Uint8Array[]): { root: Uint8Array; paths: string[][] } {
  const paths: string[][] = leaves.map(() => [])
  const climb = (from: number, to: number): Uint8Array => {
    if (to - from === 1) return leaves[from]!
    let size = 1
    while (size * 2 < to - from) size *= 2
    const left = climb(from, from + size)
    const right = climb(from + size, to)
    const left_text = toHex(left)
    const right_text = toHex(right)
    for (let at = from; at < to; at++) paths[at]!.push(at < from + size ? right_text : left_text)
    return sha256(NODE, left, right)
  }
  return { root: climb(0, leaves.length), paths }
}

/** True when `leaf` is number `index` of a receipt's group. The number of commands is not part of a receipt. */
export function isInReceipt(
  leaf: Uint8Array,
  index: number,
  path: readonly Uint8Array[],
  root: Uint8Array,
): boolean {
  const is_number = Number.isInteger(index) && index >= 0 && index < 2 ** RECEIPT_PATH_MAX
  if (!is_number || path.length > RECEIPT_PATH_MAX) return false
  return isInTree(leaf, BigInt(index), { size: sizeWith(index, path.length), root }, path)
}

/**
 * A number of leaves for which the path of leaf `index` has `length` nodes, if there is one. All such trees have the same sides:
 * each set bit of the index has a sibling on the left, and its lowest clear bits, as many as nodes remain, one on the right.
 */
function sizeWith(index: number, length: number): bigint {
  const node = BigInt(index)
  let last = node
  let right = length - index.toString(2).replaceAll('0', '').length
  for (let bit = 1n; right > 0; bit *= 2n)
    if ((node & bit) === 0n) {
      last = node | bit
      right -= 1
    }
  return last + 1n
}

type TreeHead = { size: bigint; root: Uint8Array }

/** True when `leaf` is number `index` of the tree. @param path from the leaf upwards (RFC 9162 section 2.1.3.2) */
export function isInTree(
  leaf: Uint8Array,
  index: bigint,
  { size, root }: TreeHead,
  path: readonly Uint8Array[],
): boolean {
  if (index >= size) return false
  const climbed = climb(index, size - 1n, leaf, leaf, path)
  return climbed !== undefined && equalBytes(climbed.whole, root)
}

/** True when the first statements of `newer` are those of `older` (RFC 9162 section 2.1.4.2). An empty tree proves nothing. */
export function extendsTree(older: TreeHead, newer: TreeHead, path: Uint8Array[]): boolean {
  if (older.size === 0n || older.size > newer.size) return false
  if (older.size === newer.size) return path.length === 0 && equalBytes(older.root, newer.root)
  let [node, last] = [older.size - 1n, newer.size - 1n]
  for (; node % 2n === 1n; node /= 2n) last /= 2n
  // A complete older tree is a node of the newer one, which the proof leaves out.
  const [start, ...rest] = node === 0n ? [older.root, ...path] : path
  const climbed = start && climb(node, last, start, start, rest)
  return (
    climbed !== undefined && equalBytes(climbed.left, older.root) && equalBytes(climbed.whole, newer.root)
  )
}

/**
 * Climbs from a node to the root of the tree whose last node of that level is `last`. Undefined for a path of another length.
 * @returns `whole`: the root over all; `left`: the root over the leaves up to and with the node's
 */
function climb(
  node: bigint,
  last: bigint,
  left: Uint8Array,
  whole: Uint8Array,
  path: readonly Uint8Array[],
): { left: Uint8Array; whole: Uint8Array } | undefined {
  for (const sibling of path) {
    if (last === 0n) return undefined
    if (node % 2n === 1n || node === last) {
      left = sha256(NODE, sibling, left)
      whole = sha256(NODE, sibling, whole)
      // A last node without a right sibling moves up unhashed.
      for (; node % 2n === 0n && node !== 0n; node /= 2n) last /= 2n
    } else whole = sha256(NODE, whole, sibling)
    node /= 2n
    last /= 2n
  }
  return last === 0n ? { left, whole } : undefined
}
