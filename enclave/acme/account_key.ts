/** The ACME account key: P-256, derived in the enclave at every boot, so that it needs no file. */
import { createECDH, createHash, createPrivateKey, hkdfSync, sign } from 'node:crypto'

const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

export type AccountKey = {
  /** Public key in the member order of RFC 7638. */
  readonly jwk: { crv: 'P-256'; kty: 'EC'; x: string; y: string }
  /** Base64url SHA-256 of `jwk` (RFC 7638). */
  readonly thumbprint: string
  /** ES256 (RFC 7518): 64 bytes r ‖ s. */
  sign(bytes: Uint8Array): Uint8Array
}

/** @param seed 32 bytes that only this app can derive. */
export function accountKey(seed: Uint8Array): AccountKey {
  // 384 bits before the reduction leave no bias worth the name (FIPS 186-5, A.2.1).
  const wide = Buffer.from(hkdfSync('sha256', seed, '', 'tacit/acme/account/p256', 48)).toString('hex')
  const scalar = (BigInt(`0x${wide}`) % (P256_ORDER - 1n)) + 1n
  const d = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex')
  const point = createECDH('prime256v1')
  point.setPrivateKey(d)
  const public_key = point.getPublicKey()
  const jwk = {
    crv: 'P-256' as const,
    kty: 'EC' as const,
    x: base64url(public_key.subarray(1, 33)),
    y: base64url(public_key.subarray(33)),
  }
  const key = createPrivateKey({ key: { ...jwk, d: base64url(d) }, format: 'jwk' })
  return {
    jwk,
    thumbprint: createHash('sha256').update(JSON.stringify(jwk)).digest('base64url'),
    sign: (bytes) => new Uint8Array(sign('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' })),
  }
}

export function base64url(bytes: Uint8Array | string): string {
  return Buffer.from(bytes as Uint8Array).toString('base64url')
}
