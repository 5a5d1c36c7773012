/** Hashes with Poseidon over BN254, like Solana's `sol_poseidon`, and reads elements of that field (32 bytes, big-endian). */

import { poseidon1 } from 'poseidon-lite/poseidon1'
import { poseidon2 } from 'poseidon-lite/poseidon2'
import { poseidon3 } from 'poseidon-lite/poseidon3'
import { poseidon4 } from 'poseidon-lite/poseidon4'
import { poseidon5 } from 'poseidon-lite/poseidon5'
import { concatBytes, equalBytes, fromHex, toHex } from '../bytes'

/** The order of BN254's scalar field (EIP-197; circom's default prime). */
export const FIELD_MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617n

const MODULUS_BYTES = Uint8Array.from({ length: 32 }, (_, at) =>
  Number((FIELD_MODULUS >> BigInt(8 * (31 - at))) & 0xffn),
)

export function fieldFromBytes(bytes: Uint8Array): bigint {
  return BigInt(`0x0${toHex(bytes)}`)
}

/** 32 bytes big-endian. @throws RangeError outside the field. */
export function fieldToBytes(value: bigint): Uint8Array {
  if (value < 0n || value >= FIELD_MODULUS) throw new RangeError('value is not a field element')
  const bytes = new Uint8Array(32)
  const view = new DataView(bytes.buffer)
  for (let limb = 0; limb < 4; limb++)
    view.setBigUint64(24 - 8 * limb, BigInt.asUintN(64, value >> BigInt(64 * limb)))
  return bytes
}

export function isFieldElement(bytes: Uint8Array): boolean {
  if (bytes.length !== 32) return false
  // Byte by byte: the first one decides nearly always, and no big integer is made.
  for (let at = 0; at < 32; at++) {
    const difference = bytes[at]! - MODULUS_BYTES[at]!
    if (difference !== 0) return difference < 0
  }
  return false
}

/** Reduces 48 big-endian bytes; 128 bits above the modulus leave no measurable bias. */
export function reduceWide(bytes: Uint8Array): Uint8Array {
  if (bytes.length !== 48) throw new RangeError('expected 48 bytes')
  return fieldToBytes(fieldFromBytes(bytes) % FIELD_MODULUS)
}

/** First and last 16 bytes of a 32-byte key, big-endian integers: any key fits two field elements. */
export function splitKey(key: Uint8Array): [hi: Uint8Array, lo: Uint8Array] {
  if (key.length !== 32) throw new RangeError('expected 32 bytes')
  return [key.subarray(0, 16), key.subarray(16)]
}

/**
 * Hashes with Poseidon over BN254 and circom's parameters, like Solana's `sol_poseidon` syscall. The pure implementation
 * is the default; a process can install a faster one that passes the fixed vectors.
 */

/** By arity, from 1: the hashes of (1, 2, ...), of (p - 1, p - 2, ...) and of (p / 2, p / 3, ...), rounded down. */
const HASHES = [
  [
    '29176100eaa962bdc1fe6c654d6a3c130e96a4d1168b33848b897dc502820133',
    '0771743e7ade0f56f51d16544f60059ba3029ba556d63697612900fe5f020b16',
    '0799ffb6d9f1f021a381c288ebed0792dfc366a57b8d7e979fb2a1291de55f7d',
  ],
  [
    '115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a',
    '0d984fe36eaa48abd5d41748d04aec71f5a2ed436f5207fa8b13af37bd9bfba6',
    '1b8ec315d77895b47a371187439c16e8cd4fff239c740f03cc5fd4c721bd06c0',
  ],
  [
    '0e7732d89e6939c0ff03d5e58dab6302f3230e269dc5b968f725df34ab36d732',
    '2c82fc601c507fcd087634a3ff81675c33967e662565ec3ad6482de05d020f91',
    '1cecb73a8d7c7e1c1b3426a334ba0b2a92af1f5a1e28e57f975cefab230d3d11',
  ],
  [
    '299c867db6c1fdd79dcefa40e4510b9837e60ebb1ce0663dbaa525df65250465',
    '0389b22dc74ea1215d472baf640521e4ec51d9750536db85692e52787841292e',
    '28df8e0f315fe4b52767985131c1a09a2892ff6089f53921afcd46b32b9199c9',
  ],
  [
    '0dab9449e4a1398a15224c0b15a49d598b2174d305a316c918125f8feeb123c0',
    '2eae29afc70a7662e87c67b8bd6c66590d9cc31cdeb513771df8b1bb47916fe7',
    '29f02139d329e6c1f4845e8555ed4ae64397b07c082b9d683fdbfd28688b5770',
  ],
]
const GROUPS: readonly ((place: bigint) => bigint)[] = [
  (place) => place,
  (place) => FIELD_MODULUS - place,
  (place) => FIELD_MODULUS / (place + 1n),
]

/** Per arity: groups of elements without a gap, and their hashes. */
/** Fixed hashes an implementation of Poseidon must give before it is trusted: circom's, and the Solana syscall's. */
export const POSEIDON_VECTORS = HASHES.map((hashes, index) => {
  const arity = index + 1
  const places = Array.from({ length: arity }, (_, at) => BigInt(at + 1))
  return {
    arity,
    elements: concatBytes(
      ...GROUPS.flatMap((element) => places.map((place) => fieldToBytes(element(place)))),
    ),
    hashes: concatBytes(...hashes.map((hash) => fromHex(hash, 32)!)),
  }
})

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
