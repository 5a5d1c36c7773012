/** Describes and verifies receipts: signed statements that a command is in the journal (engine.md "Receipts", RFC 6962). */

import { equalBytes } from '../bytes'
import { domain, fixed, struct, u64 } from '../codec'
import { sha256 } from '../sha256'

const LEAF = Uint8Array.of(0)
const NODE = Uint8Array.of(1)

export const { encode: encodeReceipt, decode: decodeReceipt } = struct({
  domain: domain('tacit/receipt/v1'),
  venue: fixed(32),
  epoch: u64,
  /** Journal seq of the last record of the group. */
  seq: u64,
  /** Journal hash-chain head after the group. */
  head: fixed(32),
  root: fixed(32),
})

/** Leaf of one command: SHA-256(0x00 ‖ body ‖ signature); a modify puts both bodies with their signatures in a row. */
export function receiptLeaf(body_and_signature: Uint8Array): Uint8Array {
  return sha256(LEAF, body_and_signature)
}

/** Largest power of two below `count`: where RFC 6962 splits a tree. */
function split(count: number): number {
  let size = 1
  while (size * 2 < count) size *= 2
  return size
}

/** Merkle tree hash of RFC 6962 section 2.1 over ready leaves. @throws RangeError for an empty list. */
export function receiptRoot(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 0) throw new RangeError('a receipt covers at least one command')
  if (leaves.length === 1) return leaves[0]!
  const left = split(leaves.length)
  return sha256(NODE, receiptRoot(leaves.slice(0, left)), receiptRoot(leaves.slice(left)))
}

/** Audit path of leaf `index`, from the leaf upwards (RFC 6962 section 2.1.1). */
export function receiptPath(leaves: readonly Uint8Array[], index: number): Uint8Array[] {
  if (leaves.length <= 1) return []
  const left = split(leaves.length)
  if (index < left) return [...receiptPath(leaves.slice(0, left), index), receiptRoot(leaves.slice(left))]
  return [...receiptPath(leaves.slice(left), index - left), receiptRoot(leaves.slice(0, left))]
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
  return climbs(leaf, index, path, 0, root)
}

function climbs(
  node: Uint8Array,
  index: number,
  path: readonly Uint8Array[],
  at: number,
  root: Uint8Array,
): boolean {
  if (at === path.length) return index === 0 && equalBytes(node, root)
  const sibling = path[at]!
  if (index % 2 === 1) return climbs(sha256(NODE, sibling, node), index >> 1, path, at + 1, root)
  if (climbs(sha256(NODE, node, sibling), index >> 1, path, at + 1, root)) return true
  // A last node without a right sibling moves up unhashed until it is a right child.
  let risen = index
  while (risen > 0 && risen % 2 === 0) risen >>= 1
  return risen > 0 && climbs(sha256(NODE, sibling, node), risen >> 1, path, at + 1, root)
}
