/** Builds the tree of a receipt's group and checks that a command is in it (RFC 6962, engine.md "Receipts"). */

import { equalBytes, toHex } from './bytes'
import { sha256 } from './sha256'

const LEAF = Uint8Array.of(0)
const NODE = Uint8Array.of(1)

/** Leaf of one command: SHA-256(0x00 ‖ body ‖ signature); a modify puts both bodies with their signatures in a row. */
export function receiptLeaf(body_and_signature: Uint8Array): Uint8Array {
  return sha256(LEAF, body_and_signature)
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

/**
 * Checks that `leaf` at `index` hashes to `root` through `path`. The number of leaves is not part of a receipt, so the
 * path itself determines the side of each sibling: for RFC 6962 trees any consistent reading proves membership.
 */
export function isInReceipt(
  leaf: Uint8Array,
  index: number,
  path: readonly Uint8Array[],
  root: Uint8Array,
): boolean {
  const [sibling, ...above] = path
  if (sibling === undefined) return index === 0 && equalBytes(leaf, root)
  if (index % 2 === 1) return isInReceipt(sha256(NODE, sibling, leaf), index >> 1, above, root)
  if (isInReceipt(sha256(NODE, leaf, sibling), index >> 1, above, root)) return true
  // A last node without a right sibling moves up unhashed until it is a right child.
  let risen = index
  while (risen > 0 && risen % 2 === 0) risen >>= 1
  return risen > 0 && isInReceipt(sha256(NODE, sibling, leaf), risen >> 1, above, root)
}
