/** Ed25519 keys and signatures of a client (RFC 8032), by noble: verification is protocol/ed25519.ts alone. */
import { ed25519 } from '@noble/curves/ed25519.js'

/** Raw 32-byte public key of a 32-byte seed. */
export function publicKeyOf(seed: Uint8Array): Uint8Array {
  return ed25519.getPublicKey(seed)
}

/** 64-byte signature over exactly `message`. */
export function sign(seed: Uint8Array, message: Uint8Array): Uint8Array {
  return ed25519.sign(message, seed)
}
