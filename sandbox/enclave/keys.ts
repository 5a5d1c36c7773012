/** Generates and stores the secrets of the simulated machine, and derives keys from them as dstack does. */

import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { secp256k1 } from '@noble/curves/secp256k1.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { concatBytes, fromHex, toHex, utf8 } from '../../protocol/bytes'
import { signingKey } from '../../protocol/ed25519'

export type StoredKeys = {
  /** 20 bytes; survives changes of the manifest, like an app behind a KMS. */
  app_id: Uint8Array
  instance_id: Uint8Array
  /** secp256k1 private key from which every `/GetKey` key is derived. */
  app_root_key: Uint8Array
  kms_root_key: Uint8Array
  root: KeyObject
  platform_authority: KeyObject
  pck: KeyObject
  tcb_signing: KeyObject
}

const FILE = 'development-keys.json'
const SECRETS = ['instance_seed', 'app_root_key', 'kms_root_key'] as const
const AUTHORITIES = ['root', 'platform_authority', 'pck', 'tcb_signing'] as const
type Stored = Record<'app_id' | (typeof SECRETS)[number] | (typeof AUTHORITIES)[number], string>

/** Reads the folder's keys or generates them once; only the owner can read the file. @throws when it is damaged. */
export function loadKeys(data_dir: string, compose_hash: Uint8Array): StoredKeys {
  const path = join(data_dir, FILE)
  if (!existsSync(path)) {
    writeFileSync(`${path}.new`, JSON.stringify(makeKeys(compose_hash)), { mode: 0o600 })
    renameSync(`${path}.new`, path)
  }
  const stored = JSON.parse(readFileSync(path, 'utf8')) as Stored
  const bytes = (name: 'app_id' | (typeof SECRETS)[number], width: number): Uint8Array => {
    const value = fromHex(stored[name], width)
    if (value === undefined) throw new Error(`${FILE} is damaged at ${name}`)
    return value
  }
  const app_id = bytes('app_id', 20)
  const instance_id = createHash('sha256')
    .update(bytes('instance_seed', 32))
    .update(app_id)
    .digest()
    .subarray(0, 20)
  return {
    app_id,
    instance_id: new Uint8Array(instance_id),
    app_root_key: bytes('app_root_key', 32),
    kms_root_key: bytes('kms_root_key', 32),
    root: createPrivateKey(stored.root),
    platform_authority: createPrivateKey(stored.platform_authority),
    pck: createPrivateKey(stored.pck),
    tcb_signing: createPrivateKey(stored.tcb_signing),
  }
}

function makeKeys(compose_hash: Uint8Array): Stored {
  const stored: Partial<Stored> = { app_id: toHex(compose_hash.subarray(0, 20)) }
  for (const name of SECRETS) stored[name] = toHex(randomBytes(32))
  for (const name of AUTHORITIES) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    stored[name] = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  }
  return stored as Stored
}

type DerivedKey = { key: string; signature_chain: [string, string] }

/**
 * Answers `/GetKey` by dstack's v0 rules: HKDF-SHA256(salt "RATLS", app root key, info = path), independent of purpose
 * and algorithm, with a signature chain under the app root and the KMS root.
 */
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
