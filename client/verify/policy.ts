/** Parses the policy: the demands of a client on a venue. Nothing is assumed: an empty list allows nothing. */
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { JsonObject } from './json_document'
import { CHECKS, type CheckName, Refused } from './transcript'

/** Intel's TCB statuses that a policy may allow, best first; `Revoked` is never allowed. */
export const TCB_STATUSES = [
  'UpToDate',
  'SWHardeningNeeded',
  'ConfigurationNeeded',
  'ConfigurationAndSWHardeningNeeded',
  'OutOfDate',
  'OutOfDateConfigurationNeeded',
] as const
type AllowedTcbStatus = (typeof TCB_STATUSES)[number]

/** Announced changes of the vault: `settlement.md` "Keys and administration". */
const PENDING_ACTIONS = ['rotate_signer', 'set_admin', 'authorize_restore'] as const
export type PendingAction = (typeof PENDING_ACTIONS)[number]

/** One OS image on one machine shape, 96 hex digits each: from `dstack-mr measure`. */
type RegisterTuple = { mrtd: string; rtmr0: string; rtmr1: string; rtmr2: string }

export type ChainPolicy = {
  /** JSON-RPC endpoint the client itself trusts; never the venue's. */
  rpc_url: string
  /** Base58 address of the vault program. */
  program_id: string
  /** Base58; when given, the vault must live on this cluster. */
  genesis_hash?: string
  /** 64 hex digits: SHA-256 of the program's ELF file. */
  program_sha256?: string
  /** Length of that file: the chain pads a program with zeros. */
  program_bytes?: number
  /** Base58 keys that may hold the upgrade authority; an empty list allows none. */
  upgrade_authorities: string[]
  /** Announced changes that are acceptable. */
  pending_actions: PendingAction[]
  /** A paused vault takes no deposits and settles nothing. */
  paused_allowed: boolean
}

/** The contract that decides which builds get the app's keys (dstack `DstackApp`). */
export type KmsPolicy = {
  /** Ethereum JSON-RPC endpoint the client itself trusts. The contract's address is the app id. */
  rpc_url: string
}

export type VerificationPolicy = {
  /** 64 hex digits each: the builds that are acceptable. */
  compose_hashes: string[]
  tcb_statuses: AllowedTcbStatus[]
  /** Intel advisories that are tolerated, `INTEL-SA-…`. */
  advisories: string[]
  /** Lowest acceptable `tcbEvaluationDataNumber` of TCB info and QE identity. */
  tcb_evaluation_min: number
  /** 64 hex digits each: OS images recomputed from the machine's own description. */
  os_image_hashes: string[]
  /** OS images that cannot be recomputed. */
  registers: RegisterTuple[]
  /** Environment names the manifest may list. */
  environment_names: string[]
  /** Checks that may be skipped; any other skip rejects the venue. */
  permitted_skips: CheckName[]
  /** PEM certificates that replace Intel's root: development only. */
  roots_pem?: string
  /** 32 hex digits each: the physical machines that are acceptable. */
  ppids?: string[]
  /** Base URL of Intel's PCS or a cache of it; signatures authenticate its answers. */
  collateral_url?: string
  chain?: ChainPolicy
  kms?: KmsPolicy
}

const CHECK_NAMES = CHECKS.map(([, name]) => name)
/** Fields that may be absent: their empty list is the strictest one. */
const LISTS = ['advisories', 'os_image_hashes', 'registers', 'environment_names', 'permitted_skips'] as const
const FIELDS = [
  ...LISTS,
  'compose_hashes',
  'tcb_statuses',
  'tcb_evaluation_min',
  'roots_pem',
  'ppids',
  'collateral_url',
  'chain',
  'kms',
]

/** The policy without a file: real, current hardware; checks of other demands are skipped and not permitted. */
export const BARE_POLICY: VerificationPolicy = {
  compose_hashes: [],
  tcb_statuses: ['UpToDate'],
  advisories: [],
  tcb_evaluation_min: 0,
  os_image_hashes: [],
  registers: [],
  environment_names: [],
  permitted_skips: [],
}

/**
 * @param text of `policy.json`
 * @throws Refused naming the field; also for an unknown one, since a misspelt demand would demand nothing
 */
export function parsePolicy(text: string): VerificationPolicy {
  const file = JsonObject.parse(text, 'the policy')
  file.only(FIELDS)
  return {
    compose_hashes: hexList(file, 'compose_hashes', 32),
    tcb_statuses: oneOf(file.texts('tcb_statuses'), TCB_STATUSES, 'tcb_statuses'),
    advisories: file.texts('advisories'),
    tcb_evaluation_min: file.optional('tcb_evaluation_min', (field) => file.integer(field)) ?? 0,
    os_image_hashes: hexList(file, 'os_image_hashes', 32),
    registers: file.has('registers') ? file.objects('registers').map(readRegisters) : [],
    environment_names: file.texts('environment_names'),
    permitted_skips: oneOf(file.texts('permitted_skips'), CHECK_NAMES, 'permitted_skips'),
    ...defined(
      'roots_pem',
      file.optional('roots_pem', (field) => file.text(field)),
    ),
    ...defined('ppids', file.has('ppids') ? hexList(file, 'ppids', 16) : undefined),
    ...defined(
      'collateral_url',
      file.optional('collateral_url', (field) => url(file, field)),
    ),
    ...defined(
      'chain',
      file.optional('chain', (field) => readChain(file.object(field))),
    ),
    ...defined(
      'kms',
      file.optional('kms', (field) => readKms(file.object(field))),
    ),
  }
}

function readChain(chain: JsonObject): ChainPolicy {
  chain.only([
    'rpc_url',
    'program_id',
    'genesis_hash',
    'program_sha256',
    'program_bytes',
    'upgrade_authorities',
    'pending_actions',
    'paused_allowed',
  ])
  return {
    rpc_url: url(chain, 'rpc_url'),
    program_id: base58(chain.text('program_id')),
    ...defined(
      'genesis_hash',
      chain.optional('genesis_hash', (field) => base58(chain.text(field))),
    ),
    ...defined(
      'program_sha256',
      chain.optional('program_sha256', (field) => hex(chain.text(field), 32)),
    ),
    ...defined(
      'program_bytes',
      chain.optional('program_bytes', (field) => chain.integer(field)),
    ),
    upgrade_authorities: chain.texts('upgrade_authorities').map(base58),
    pending_actions: oneOf(chain.texts('pending_actions'), PENDING_ACTIONS, 'pending_actions'),
    paused_allowed: chain.optional('paused_allowed', (field) => chain.boolean(field)) ?? false,
  }
}

function readKms(kms: JsonObject): { rpc_url: string } {
  kms.only(['rpc_url'])
  return { rpc_url: url(kms, 'rpc_url') }
}

function readRegisters(tuple: JsonObject): RegisterTuple {
  tuple.only(['mrtd', 'rtmr0', 'rtmr1', 'rtmr2'])
  const register = (name: keyof RegisterTuple) => hex(tuple.text(name), 48)
  return {
    mrtd: register('mrtd'),
    rtmr0: register('rtmr0'),
    rtmr1: register('rtmr1'),
    rtmr2: register('rtmr2'),
  }
}

/** An optional field is absent rather than undefined. */
function defined<K extends string, V>(name: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [name]: value } as { [P in K]?: V })
}

function hexList(file: JsonObject, field: string, width: number): string[] {
  return file.texts(field).map((text) => hex(text, width))
}

function hex(text: string, width: number): string {
  if (fromHex(text, width) === undefined)
    throw new Refused(`the policy has a value that is not ${width * 2} hex digits`)
  return text
}

function base58(text: string): string {
  if (decodeBase58(text, 32) === undefined) throw new Refused('the policy has a malformed base58 value')
  return text
}

function url(file: JsonObject, field: string): string {
  const text = file.text(field)
  if (!URL.canParse(text)) throw new Refused(`the policy has no well formed ${field}`)
  return text
}

function oneOf<T extends string>(texts: readonly string[], known: readonly T[], field: string): T[] {
  return texts.map((text) => {
    const found = known.find((one) => one === text)
    if (found === undefined) throw new Refused(`the policy's ${field} do not know ${text}`)
    return found
  })
}
