/** The stand-in's secrets, made once per data folder, so that keys and development root survive a restart. */
import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromHex, toHex } from '../../protocol/bytes'

export type StoredKeys = {
  /** 20 bytes; like an app behind a KMS it outlives changes of the manifest. */
  app_id: Uint8Array
  instance_id: Uint8Array
  /** secp256k1 private key from which every `/GetKey` answer derives. */
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

/** Reads the folder's keys or makes them; the file is readable by its owner only. @throws when the file is damaged. */
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
