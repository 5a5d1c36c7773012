/** Leaves of the indexed tree of spent nullifiers: `Poseidon(5, value, next_value)`, 0 = no next. */
import { fieldFromBytes, fieldToBytes } from './field'
import { poseidon } from './poseidon'

export function spentLeaf(value: Uint8Array, next_value: Uint8Array): Uint8Array {
  return fieldToBytes(poseidon([5n, fieldFromBytes(value), fieldFromBytes(next_value)]))
}

/** Leaf 0 of every spent tree: the head of the list of nullifiers. */
export const SPENT_HEAD_LEAF: Uint8Array = spentLeaf(new Uint8Array(32), new Uint8Array(32))
