/** Elements of BN254's scalar field as 32-byte big-endian values. */
import { toHex } from './bytes'

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
