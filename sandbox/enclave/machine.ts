/** Describes the imaginary machine, its secrets, and quotes of it without a guest agent. Intel issued none of it. */

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
import { sha384 } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { concatBytes, fromHex, toHex, utf8 } from '../../protocol/bytes'
import { signingKey } from '../../protocol/ed25519'
import { sha256 } from '../../protocol/sha256'
import {
  parseEventLog,
  RUNTIME_EVENT_TYPE,
  replayRegisters,
  runtimeDigest,
} from '../../protocol/tdx/event_log'

/** Describes the imaginary machine: platform identifiers, measurements, event log, registers. Intel issued none of them. */

/** Part of every name and measurement below. */
export const DEVELOPMENT_ONLY = 'DEVELOPMENT ONLY'

const hash32 = (label: string): Uint8Array => sha256(utf8(`${DEVELOPMENT_ONLY} ${label}`))
const hash48 = (label: string): Uint8Array => sha384(utf8(`${DEVELOPMENT_ONLY} ${label}`))

export const FMSPC = fromHex('de0e00000000', 6)!
export const PCE_ID = new Uint8Array(2)
export const PPID = hash32('ppid').subarray(0, 16)
export const PLATFORM_INSTANCE_ID = hash32('platform instance').subarray(0, 16)
/** 16 SGX component versions. */
export const CPU_SVN = fromHex('03030202040100050000000000000000', 16)!
export const PCE_SVN = 13
/** 16 TDX component versions: module SVN 6, module major version 1, late microcode update 3 (or 2 when outdated). */
export const TEE_TCB_SVN = fromHex('06010300000000000000000000000000', 16)!
export const TEE_TCB_SVN_OUT_OF_DATE = fromHex('06010200000000000000000000000000', 16)!

/** Intel's vendor id and signer, because verifiers and the vault accept no other; a development quote differs only by its root. */
export const QE_VENDOR_ID = fromHex('939a7233f79c4ca9940a0db3957f0607', 16)!
export const QE_ID = hash32('qe id').subarray(0, 16)
export const QE_MR_ENCLAVE = hash32('qe mrenclave')
export const QE_MR_SIGNER = fromHex('dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5', 32)!
export const QE_ATTRIBUTES = fromHex('1500000000000000e700000000000000', 16)!
export const QE_PROD_ID = 2
export const QE_SVN = 4

export const MR_SEAM = hash48('mrseam')
export const MR_TD = hash48('mrtd')
/** SEPT_VE_DISABLE only, as on dstack machines. */
export const TD_ATTRIBUTES = fromHex('0000001000000000', 8)!
export const TD_ATTRIBUTES_DEBUG = fromHex('0100001000000000', 8)!
export const XFAM = fromHex('e702060000000000', 8)!
export const OS_IMAGE_HASH = hash32('os image')
/** The manifest measured when the knob `wrong_compose_hash` is set. */
export const OTHER_COMPOSE_HASH = hash32('another manifest')

type LoggedEvent = { imr: number; event_type: number; digest: string; event: string; event_payload: string }

type MeasuredBoot = {
  registers: ReturnType<typeof replayRegisters>
  /** As in `/Info`: with every digest and payload. */
  full_log: LoggedEvent[]
  /** As in `/GetQuote` since dstack 0.5.6: firmware events without payload, runtime events without digest. */
  stripped_log: string
}

/** Firmware events: register, TCG event type and measured component. */
const FIRMWARE_EVENTS: readonly [imr: number, event_type: number, label: string][] = [
  [0, 0x8000_000b, 'td hob'],
  [0, 0x8000_000a, 'firmware volume'],
  [0, 0x8000_0001, 'secure boot variables'],
  [0, 4, 'separator'],
  [0, 10, 'acpi tables'],
  [1, 0x8000_0003, 'kernel'],
  [1, 0x8000_0007, 'boot services exit'],
  [2, 6, 'command line'],
  [2, 6, 'initrd'],
]

/** The event log by dstack's rules, and the registers it replays to. */
export function measureBoot(
  app_id: Uint8Array,
  compose_hash: Uint8Array,
  instance_id: Uint8Array,
): MeasuredBoot {
  const runtime: [name: string, payload: Uint8Array][] = [
    ['system-preparing', new Uint8Array()],
    ['app-id', app_id],
    ['compose-hash', compose_hash],
    ['instance-id', instance_id],
    ['boot-mr-done', new Uint8Array()],
    ['os-image-hash', OS_IMAGE_HASH],
    ['key-provider', utf8(JSON.stringify({ name: DEVELOPMENT_ONLY, id: '' }))],
    ['storage-fs', utf8('none')],
    ['system-ready', new Uint8Array()],
  ]
  const full_log: LoggedEvent[] = [
    ...FIRMWARE_EVENTS.map(([imr, event_type, label]) => {
      const event_payload = toHex(utf8(`${DEVELOPMENT_ONLY} ${label}`))
      return { imr, event_type, digest: toHex(hash48(label)), event: '', event_payload }
    }),
    ...runtime.map(([event, payload]) => {
      const digest = toHex(runtimeDigest(event, payload))
      return { imr: 3, event_type: RUNTIME_EVENT_TYPE, digest, event, event_payload: toHex(payload) }
    }),
  ]
  const stripped_log = JSON.stringify(
    full_log.map((event) => (event.imr === 3 ? { ...event, digest: '' } : { ...event, event_payload: '' })),
  )
  return { registers: replayRegisters(parseEventLog(stripped_log)), full_log, stripped_log }
}

export const VM_CONFIG = JSON.stringify({
  spec_version: 1,
  os_image_hash: toHex(OS_IMAGE_HASH),
  cpu_count: 2,
  memory_size: 4_294_967_296,
  qemu_version: DEVELOPMENT_ONLY,
  pci_hole64_size: 0,
  hugepages: false,
  num_gpus: 0,
  num_nvswitches: 0,
  hotplug_off: true,
  image: DEVELOPMENT_ONLY,
  tdx_attestation_variant: 'legacy',
})

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
