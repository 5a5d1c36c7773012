/**
 * Hashes with Poseidon over BN254 and circom's parameters, like Solana's `sol_poseidon` syscall. The pure implementation
 * is the default; a process can install a faster one that passes the fixed vectors.
 */
import { poseidon1 } from 'poseidon-lite/poseidon1'
import { poseidon2 } from 'poseidon-lite/poseidon2'
import { poseidon3 } from 'poseidon-lite/poseidon3'
import { poseidon4 } from 'poseidon-lite/poseidon4'
import { poseidon5 } from 'poseidon-lite/poseidon5'
import { equalBytes } from '../bytes'
import { fieldFromBytes, fieldToBytes } from '../field'
import { POSEIDON_VECTORS } from './poseidon_vectors'

const BY_ARITY = [undefined, poseidon1, poseidon2, poseidon3, poseidon4, poseidon5] as const
export const ELEMENT_BYTES = 32

/**
 * Hashes groups of `arity` (1 to 5) elements of 32 big-endian bytes that follow each other without a gap, to 32 bytes
 * each in a new buffer. An element outside the field is reduced modulo the field's order.
 */
export type PoseidonHasher = (arity: number, elements: Uint8Array) => Uint8Array

/** The reference: BigInt, no preparation, any JavaScript. */
export const purePoseidon: PoseidonHasher = (arity, elements) => {
  const count = elements.length / (arity * ELEMENT_BYTES)
  const hashes = new Uint8Array(count * ELEMENT_BYTES)
  for (let n = 0; n < count; n++) {
    const inputs = Array.from({ length: arity }, (_, i) => {
      const at = (n * arity + i) * ELEMENT_BYTES
      return fieldFromBytes(elements.subarray(at, at + ELEMENT_BYTES))
    })
    hashes.set(fieldToBytes(BY_ARITY[arity]!(inputs)), n * ELEMENT_BYTES)
  }
  return hashes
}

let hasher: PoseidonHasher = purePoseidon

/** Uses `faster` for all later hashes of this thread if it passes the fixed vectors. Returns whether it did. */
export function installPoseidon(faster: PoseidonHasher): boolean {
  const proven = POSEIDON_VECTORS.every(({ arity, elements, hashes }) => {
    return equalBytes(faster(arity, elements), hashes)
  })
  if (proven) hasher = faster
  return proven
}

/** Hashes many groups at once, such as the pairs of a tree's level. @throws RangeError for another arity or length. */
export function poseidonEach(arity: number, elements: Uint8Array): Uint8Array {
  if (BY_ARITY[arity] === undefined) throw new RangeError('poseidon takes 1 to 5 inputs')
  if (elements.length % (arity * ELEMENT_BYTES) !== 0)
    throw new RangeError('expected whole groups of elements')
  return hasher(arity, elements)
}

/**
 * Hashes 1 to 5 elements: big-endian bytes of at most 32, or small whole numbers such as domain tags.
 * @throws RangeError for another count or size.
 */
export function poseidonOf(...inputs: readonly (Uint8Array | number | bigint)[]): Uint8Array {
  const elements = new Uint8Array(inputs.length * ELEMENT_BYTES)
  inputs.forEach((input, at) => {
    const bytes = input instanceof Uint8Array ? input : fieldToBytes(BigInt(input))
    if (bytes.length > ELEMENT_BYTES) throw new RangeError('an element has at most 32 bytes')
    elements.set(bytes, (at + 1) * ELEMENT_BYTES - bytes.length)
  })
  return poseidonEach(inputs.length, elements)
}
