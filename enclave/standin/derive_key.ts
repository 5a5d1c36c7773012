/** The stand-in's `/GetKey`: dstack's v0 derivation and signature chain, under a made-up app root and KMS root. */
import { hkdfSync } from 'node:crypto'
import { secp256k1 } from '@noble/curves/secp256k1.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { concatBytes, toHex, utf8 } from '../../protocol/bytes'
import { signingKey } from '../signing_key'
import type { StoredKeys } from './stored_keys'

export type DerivedKey = { key: string; signature_chain: [string, string] }

/** HKDF-SHA256(salt "RATLS", app root key, info = path): neither purpose nor algorithm changes the key. */
export function deriveKey(keys: StoredKeys, path: string, purpose: string, algorithm: string): DerivedKey {
  const { app_id, app_root_key, kms_root_key } = keys
  const key = new Uint8Array(hkdfSync('sha256', app_root_key, 'RATLS', path, 32))
  const public_key = algorithm === 'ed25519' ? signingKey(key).public_key : secp256k1.getPublicKey(key)
  const app_claim = utf8(`${purpose}:${toHex(public_key)}`)
  const kms_claim = concatBytes(utf8('dstack-kms-issued:'), app_id, secp256k1.getPublicKey(app_root_key))
  return {
    key: toHex(key),
    signature_chain: [signClaim(app_claim, app_root_key), signClaim(kms_claim, kms_root_key)],
  }
}

/** r ‖ s ‖ recovery id, 65 bytes; noble puts the recovery id first. */
function signClaim(claim: Uint8Array, key: Uint8Array): string {
  const signature = secp256k1.sign(keccak_256(claim), key, { prehash: false, format: 'recovered' })
  return toHex(concatBytes(signature.subarray(1), signature.subarray(0, 1)))
}
