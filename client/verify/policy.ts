/** Parses the policy: the demands of a client on a venue. Nothing is assumed: an empty list allows nothing. */
import { decodeBase58 } from '../../protocol/base58'
import { LOCATION_LEVELS, type LocationLevel } from '../../protocol/bodies/location'
import { fromHex } from '../../protocol/bytes'
import type { KeyProvider } from '../../protocol/tdx/mr_config_id'
import { JsonObject } from './json_document'
import { readSkipReasons, type SkipReason } from './skip_reasons'
import { Refused } from './transcript'

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
type RegisterTuple = {
  mrtd: string
  rtmr0: string
  rtmr1: string
  rtmr2: string
  /** 16 hex digits: exactly these processor features. */
  xfam?: string
}

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
  /** Shortest acceptable `exit_delay_s`: announced changes wait twice as long. */
  exit_delay_min_s?: number
  /** Base58 keys or multisig addresses, one of which administers the vault. */
  admins?: string[]
}

/** The contract that decides which builds get the app's keys (dstack `DstackApp`). */
export type KmsPolicy = {
  /** Ethereum JSON-RPC endpoint the client itself trusts. The contract's address is the app id. */
  rpc_url: string
  /** `0x` and 40 hex digits each: the owners that are acceptable, such as a timelock. */
  owners?: string[]
  /** Shortest acceptable `getMinDelay()` of the owner (OpenZeppelin `TimelockController`). */
  timelock_min_s?: number
}

/** One company's RPC hosts, with a port where it is not 443. */
type RpcOperator = { name: string; hosts: string[] }
type RpcOperatorsPolicy = { operators: RpcOperator[]; minimum: number }

/** An authority that signs statements about machines, or a list in the policy itself. */
export type LocationAuthority =
  | {
      name: string
      /** Base58 Ed25519 key. */
      key: string
      /** Answers `GET url/PPID/INSTANCE_ID` with `{body, signature}`. */
      url: string
      levels: LocationLevel[]
    }
  | { name: string; ppids: string[] }
type LocationPolicy = { authorities: LocationAuthority[]; minimum: number }

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
  /** Reasons for which a check may be skipped; any other skip rejects the venue. */
  permitted_skips: SkipReason[]
  /** PEM certificates that replace Intel's root: development only. */
  roots_pem?: string
  /** 32 hex digits each: the physical machines that are acceptable. */
  ppids?: string[]
  /** 16 hex digits in the quote's byte order: the processor features (XFAM) that a machine may use. */
  xfam_mask?: string
  /** 40 hex digits each: the deployments that are acceptable. */
  app_ids?: string[]
  /** The sources of app keys that are acceptable, by name and id. */
  key_providers?: KeyProvider[]
  rpc_operators?: RpcOperatorsPolicy
  location?: LocationPolicy
  /** Base URL of Intel's PCS or a cache of it; signatures authenticate its answers. */
  collateral_url?: string
  chain?: ChainPolicy
  kms?: KmsPolicy
}

/** Fields that may be absent: their empty list is the strictest one. */
const LISTS = ['advisories', 'os_image_hashes', 'registers', 'environment_names', 'permitted_skips'] as const
const FIELDS = [
  ...LISTS,
  'compose_hashes',
  'tcb_statuses',
  'tcb_evaluation_min',
  'roots_pem',
  'ppids',
  'xfam_mask',
  'app_ids',
  'key_providers',
  'rpc_operators',
  'location',
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
  // The contract lies at the app id and governs keys of its own KMS: without both pins a host brings its own of each.
  if (file.has('kms') && !(file.has('app_ids') && file.has('key_providers')))
    throw new Refused('the policy names kms, so it must pin app_ids and key_providers')
  return {
    compose_hashes: hexList(file, 'compose_hashes', 32),
    tcb_statuses: oneOf(file.texts('tcb_statuses'), TCB_STATUSES, 'tcb_statuses'),
    advisories: file.texts('advisories'),
    tcb_evaluation_min: file.optional('tcb_evaluation_min', (field) => file.integer(field)) ?? 0,
    os_image_hashes: hexList(file, 'os_image_hashes', 32),
    registers: file.has('registers') ? file.objects('registers').map(readRegisters) : [],
    environment_names: file.texts('environment_names'),
    permitted_skips: readSkipReasons(file.texts('permitted_skips')),
    ...defined(
      'roots_pem',
      file.optional('roots_pem', (field) => file.text(field)),
    ),
    ...readPins(file),
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

/** Demands that are skipped with a reason when absent; a list that names nothing allows nothing. */
function readPins(file: JsonObject) {
  const field = <K extends keyof VerificationPolicy, V>(name: K, read: () => V) =>
    defined(name, file.has(name) ? read() : undefined)
  return {
    ...field('ppids', () => hexList(file, 'ppids', 16)),
    ...field('xfam_mask', () => hex(file.text('xfam_mask'), 8)),
    ...field('app_ids', () => hexList(file, 'app_ids', 20)),
    ...field('key_providers', () => file.objects('key_providers').map(readProvider)),
    ...field('rpc_operators', () => readRpcOperators(file.object('rpc_operators'))),
    ...field('location', () => readLocation(file.object('location'))),
  }
}

function readProvider(provider: JsonObject): KeyProvider {
  provider.only(['name', 'id'])
  const [name, id] = [provider.text('name'), provider.text('id')]
  if (name === '' || !/^(?:[0-9a-f]{2})*$/.test(id))
    throw new Refused('the policy has a malformed key provider')
  // A name alone identifies no operator: any host can run a KMS.
  if (name === 'kms' && id === '') throw new Refused('the policy pins a kms without its id')
  return { name, id }
}

function readRpcOperators(policy: JsonObject): RpcOperatorsPolicy {
  policy.only(['operators', 'minimum'])
  const operators = policy.objects('operators').map((operator) => {
    operator.only(['name', 'hosts'])
    return { name: operator.text('name'), hosts: operator.texts('hosts').map(host) }
  })
  requireDistinct([operators.map(({ name }) => name), operators.flatMap(({ hosts }) => hosts)])
  return { operators, minimum: count(policy, operators.length) }
}

function readLocation(policy: JsonObject): LocationPolicy {
  policy.only(['authorities', 'minimum'])
  const authorities = policy.objects('authorities').map(readAuthority)
  const keys = authorities.flatMap((one) => ('key' in one ? [one.key] : []))
  requireDistinct([authorities.map(({ name }) => name), keys])
  return { authorities, minimum: count(policy, authorities.length) }
}

function readAuthority(authority: JsonObject): LocationAuthority {
  const name = authority.text('name')
  if (authority.has('ppids')) {
    authority.only(['name', 'ppids'])
    return { name, ppids: hexList(authority, 'ppids', 16) }
  }
  authority.only(['name', 'key', 'url', 'levels'])
  const levels = oneOf(authority.texts('levels'), LOCATION_LEVELS, 'levels')
  return { name, key: base58(authority.text('key')), url: url(authority, 'url'), levels }
}

/** `minimum`, from 1 to the number of entries: another number demands nothing or can never hold. */
function count(policy: JsonObject, entries: number): number {
  const minimum = policy.integer('minimum')
  if (minimum < 1 || minimum > entries) throw new Refused(`the policy's minimum is not from 1 to ${entries}`)
  return minimum
}

function requireDistinct(lists: readonly string[][]): void {
  if (lists.some((list) => new Set(list).size !== list.length))
    throw new Refused('the policy names an operator, host, authority or its key twice')
}

function host(text: string): string {
  const canonical = URL.canParse(`https://${text}`) ? new URL(`https://${text}`).host : undefined
  if (canonical !== text) throw new Refused(`the policy has a malformed host ${text}`)
  return text
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
    'exit_delay_min_s',
    'admins',
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
    ...defined(
      'exit_delay_min_s',
      chain.optional('exit_delay_min_s', (field) => chain.integer(field)),
    ),
    ...defined('admins', chain.has('admins') ? chain.texts('admins').map(base58) : undefined),
  }
}

function readKms(kms: JsonObject): KmsPolicy {
  kms.only(['rpc_url', 'owners', 'timelock_min_s'])
  if (kms.has('timelock_min_s') && !kms.has('owners'))
    throw new Refused('the policy asks for a timelock, so it must pin owners')
  return {
    rpc_url: url(kms, 'rpc_url'),
    ...defined('owners', kms.has('owners') ? kms.texts('owners').map(ethereumAddress) : undefined),
    ...defined(
      'timelock_min_s',
      kms.optional('timelock_min_s', (field) => kms.integer(field)),
    ),
  }
}

/** In any case; kept in lowercase. */
function ethereumAddress(text: string): string {
  const lower = text.toLowerCase()
  if (!/^0x[0-9a-f]{40}$/.test(lower))
    throw new Refused('the policy has an owner that is not 0x and 40 hex digits')
  return lower
}

function readRegisters(tuple: JsonObject): RegisterTuple {
  tuple.only(['mrtd', 'rtmr0', 'rtmr1', 'rtmr2', 'xfam'])
  const register = (name: 'mrtd' | 'rtmr0' | 'rtmr1' | 'rtmr2') => hex(tuple.text(name), 48)
  return {
    mrtd: register('mrtd'),
    rtmr0: register('rtmr0'),
    rtmr1: register('rtmr1'),
    rtmr2: register('rtmr2'),
    ...defined(
      'xfam',
      tuple.optional('xfam', (field) => hex(tuple.text(field), 8)),
    ),
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
