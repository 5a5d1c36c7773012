/** Keeps the spent log: an append-only SHA-256 tree of depth 40 with a leaf for each settlement batch. */

import { concatBytes, u64Le, utf8 } from '../bytes'
import { TREE_DEPTH } from '../limits'
import { sha256 } from '../sha256'
import { MerkleTree, NODE_BYTES, type TreeLevel } from './merkle_tree'

export const SPENT_LOG_DEPTH = TREE_DEPTH

const LEAF_DOMAIN = utf8('tacit/spent/v1')
const NODE_TAG = Uint8Array.of(1)

/** SHA-256("tacit/spent/v1" ‖ batch id u64 LE ‖ nullifiers). `nullifiers`: all of the batch, ascending. */
export const spentLogLeaf = (batch: number, nullifiers: readonly Uint8Array[]): Uint8Array =>
  sha256(LEAF_DOMAIN, u64Le(batch), concatBytes(...nullifiers))

const spentNode = (left: Uint8Array, right: Uint8Array): Uint8Array => sha256(NODE_TAG, left, right)

/** EMPTY_SPENT_SUBTREES[h] is the root of an empty subtree of height h; the last one is that of an empty log. */
export const EMPTY_SPENT_SUBTREES: readonly Uint8Array[] = (() => {
  const roots: Uint8Array[] = [new Uint8Array(32)]
  for (let height = 0; height < SPENT_LOG_DEPTH; height++)
    roots.push(spentNode(roots[height]!, roots[height]!))
  return roots
})()

/** The spent log; its leaves are those of `spentLogLeaf`, the leaf of batch n at index n - 1. Keeps 64 bytes for each batch. */
export class SpentLog extends MerkleTree {
  constructor(levelOf?: (height: number) => TreeLevel) {
    super(levelOf, 0, { empty: EMPTY_SPENT_SUBTREES, parents: spentParents })
  }
}

function spentParents(nodes: Uint8Array): Uint8Array {
  const parents: Uint8Array[] = []
  for (let at = 0; at < nodes.length; at += 2 * NODE_BYTES)
    parents.push(sha256(NODE_TAG, nodes.subarray(at, at + 2 * NODE_BYTES)))
  return concatBytes(...parents)
}
