/** Strict Ed25519 verification on a server or in Bun and Node clients (protocol.md "Signature rule"). */
import { createPublicKey, verify } from 'node:crypto'
import { passesStrictRule } from './ed25519_rule'

/** DER prefix of an Ed25519 SubjectPublicKeyInfo (RFC 8410); the raw key follows. */
const SPKI_PREFIX = Uint8Array.of(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00)

/**
 * Verifies plain Ed25519 over exactly `message`. False for every key or signature the rule rejects, of any width.
 * The key object is made per call: a cache gains one percent and is memory a stranger can fill.
 */
export function verifySignature(signature: Uint8Array, message: Uint8Array, public_key: Uint8Array): boolean {
  if (!passesStrictRule(signature, public_key)) return false
  const der = Buffer.alloc(SPKI_PREFIX.length + 32)
  der.set(SPKI_PREFIX)
  der.set(public_key, SPKI_PREFIX.length)
  return verify(null, message, createPublicKey({ key: der, format: 'der', type: 'spki' }), signature)
}
