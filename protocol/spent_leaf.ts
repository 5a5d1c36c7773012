/** Leaves of the indexed tree of spent nullifiers: `Poseidon(5, value, next_value)`, 0 = no next. */
import { concatBytes } from './bytes'
import { poseidonEach, poseidonOf } from './poseidon'

export function spentLeaf(value: Uint8Array, next_value: Uint8Array): Uint8Array {
  return poseidonOf(5, value, next_value)
}

const TAG = new Uint8Array(32)
TAG[31] = 5

/** The same for many at once. */
export function spentLeaves(leaves: readonly { value: Uint8Array; next_value: Uint8Array }[]): Uint8Array[] {
  const hashes = poseidonEach(3, concatBytes(...leaves.flatMap((leaf) => [TAG, leaf.value, leaf.next_value])))
  return leaves.map((_, at) => hashes.slice(32 * at, 32 * at + 32))
}

/** Leaf 0 of every spent tree: the head of the list of nullifiers. */
export const SPENT_HEAD_LEAF: Uint8Array = spentLeaf(new Uint8Array(32), new Uint8Array(32))
