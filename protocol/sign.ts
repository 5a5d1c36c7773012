/** Ed25519 keys and signatures of a client (RFC 8032), by noble, and the strict part of the rule that verifies them. */
import { ed25519 } from '@noble/curves/ed25519.js'

/** Raw 32-byte public key of a 32-byte seed. */
export function publicKeyOf(seed: Uint8Array): Uint8Array {
  return ed25519.getPublicKey(seed)
}

/** 64-byte signature over exactly `message`. */
export function sign(seed: Uint8Array, message: Uint8Array): Uint8Array {
  return ed25519.sign(message, seed)
}

/**
 * The strict part of the signature rule (protocol.md "Signature rule"): lengths, `S < L`, the key's y below the field prime,
 * key and R outside the small-order encodings. A signature that passes goes to the platform's cofactorless check. Together they
 * equal libsodium's verdict on the "Taming the many EdDSAs" and CCTV vectors.
 */

/** Group order L of edwards25519 (RFC 8032 section 5.1). */
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n
/** Field prime 2^255 - 19. */
const PRIME = 2n ** 255n - 19n

/** The eight points of small order, as y coordinates; each has encodings with either sign bit, canonical or not. */
const SMALL_ORDER_Y = new Set<bigint>([
  0n,
  1n,
  PRIME - 1n,
  PRIME,
  PRIME + 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
])

function littleEndian(bytes: Uint8Array): bigint {
  let value = 0n
  for (let at = bytes.length - 1; at >= 0; at--) value = (value << 8n) | BigInt(bytes[at]!)
  return value
}

/** y coordinate without the sign bit. */
function yOf(point: Uint8Array): bigint {
  return littleEndian(point) & ((1n << 255n) - 1n)
}

/** Small-order points are few: their first byte rules nearly every key out before a big integer is made. */
const SMALL_ORDER_FIRST_BYTES = new Set([...SMALL_ORDER_Y].map((y) => Number(y & 0xffn)))

/** @param point begins with the 32 bytes of a point. No view is made of it: that would move a short array out of the heap. */
function isSmallOrder(point: Uint8Array): boolean {
  return SMALL_ORDER_FIRST_BYTES.has(point[0]!) && SMALL_ORDER_Y.has(yOf(point.subarray(0, 32)))
}

function isCanonicalY(point: Uint8Array): boolean {
  // Only encodings ending in 0x7f (sign bit aside) with a high first byte can reach the prime.
  return (point[31]! & 0x7f) !== 0x7f || yOf(point) < PRIME
}

/** Whether the second half of a signature is below the order. */
function isReduced(signature: Uint8Array): boolean {
  return signature[63]! < 0x10 || littleEndian(signature.subarray(32)) < ORDER
}

/** True when key and signature may be given to the platform's verification. */
export function passesStrictRule(signature: Uint8Array, public_key: Uint8Array): boolean {
  if (signature.length !== 64 || public_key.length !== 32) return false
  if (!isCanonicalY(public_key) || isSmallOrder(public_key)) return false
  return !isSmallOrder(signature) && isReduced(signature)
}
