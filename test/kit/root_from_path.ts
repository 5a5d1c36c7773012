/** Computes the root that a leaf of a tree leads to, as the vault program does. */
import { TREE_DEPTH } from '../../protocol/limits'
import { poseidonOf } from '../../protocol/notes/poseidon'
import { sha256 } from '../../protocol/sha256'

const rootBy =
  (node: (left: Uint8Array, right: Uint8Array) => Uint8Array) =>
  /** @param siblings 40, from the leaf upwards */
  (leaf: Uint8Array, index: number, siblings: readonly Uint8Array[]): Uint8Array => {
    if (siblings.length !== TREE_DEPTH) throw new RangeError('expected 40 siblings')
    return siblings.reduce((own, sibling, height) => {
      return Math.floor(index / 2 ** height) % 2 === 1 ? node(sibling, own) : node(own, sibling)
    }, leaf)
  }

/** Of the note tree. */
export const rootFromPath = rootBy((left, right) => poseidonOf(left, right))
/** Of the spent log; `index` is the batch id less 1. */
export const spentRootFromPath = rootBy((left, right) => sha256(Uint8Array.of(1), left, right))
