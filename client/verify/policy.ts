/** Parses the policy: the demands of a client on a venue, and the reasons for which a check may be skipped. */
import { decodeBase58 } from '../../protocol/base58'
import { LOCATION_LEVELS, type LocationLevel } from '../../protocol/bodies/statements'
import { fromHex } from '../../protocol/bytes'
import { fractionIn } from '../../protocol/strict_json'
import type { KeyProvider } from '../../protocol/tdx/mr_config_id'
import { ANNOUNCED_LISTS, type AnnouncedList } from '../../protocol/vault/admin'
import { derOfPem, readCertificate } from '../../protocol/x509/certificate'
import { JsonObject } from './json_document'
import { Refused } from './transcript'

/** Parses the policy: the demands of a client on a venue. A demand is absent or names something. */

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

const ANNOUNCED_NAMES = Object.keys(ANNOUNCED_LISTS) as AnnouncedList[]
/** Announced changes of the vault, by list of the records that epochs rest on: `settlement.md` "Keys and administration". */
const PENDING_ACTIONS = ['set_admin', 'authorize_restore', ...ANNOUNCED_NAMES] as const
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
  /** Endpoints at other hosts that must show the same vault: with one, no single node hides an announcement. */
  witness_rpc_urls?: string[]
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
  /** Base58 keys, derived from the KMS, one of which must sign each opening of an epoch. */
  epoch_authorities?: string[]
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

type SigningAuthority = {
  name: string
  /** Base58 Ed25519 key. */
  key: string
  /** Answers `GET url/PPID/INSTANCE_ID` with `{body, signature}`. */
  url: string
}
/** An append-only log: base58 key that signs its heads, and size and root of a head that the client has seen. */
export type LocationLog = { key: string; size: number; root: string }
/** An authority that signs statements, one whose statements of inspections are in a log, or a list in the policy itself. */
export type LocationAuthority =
  | (SigningAuthority & { levels: LocationLevel[] })
  /** Answers `GET url/PPID/INSTANCE_ID/SIZE` with `{body, signature, log}`, the proof from the pinned size on. */
  | (SigningAuthority & { log: LocationLog })
  | { name: string; ppids: string[] }
type LocationPolicy = { authorities: LocationAuthority[]; minimum: number }

type Demands = {
  /** 64 hex digits each: the builds that are acceptable. */
  compose_hashes?: string[]
  tcb_statuses: AllowedTcbStatus[]
  /** Intel advisories that are tolerated, `INTEL-SA-…`. */
  advisories: string[]
  /** Lowest acceptable `tcbEvaluationDataNumber` of TCB info and QE identity. */
  tcb_evaluation_min?: number
  /** 64 hex digits each: OS images recomputed from the machine's own description. */
  os_image_hashes?: string[]
  /** OS images that cannot be recomputed. */
  registers?: RegisterTuple[]
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

/** Private, so that neither a literal nor a changed copy has the type. */
declare class Parsed {
  private readonly parsed: true
}
/** A policy whose every field `parsePolicy` has checked; frozen. */
export type VerificationPolicy = Readonly<Demands> & Parsed
const PARSED = new WeakSet<object>()

/** @throws Refused for an object that `parsePolicy` did not make: a misspelt demand in it would demand nothing */
export function requireParsed(policy: VerificationPolicy): void {
  if (!PARSED.has(policy)) throw new Refused('the policy was not made by parsePolicy')
}

/**
 * @param text of `policy.json`
 * @throws Refused naming the field; also for an unknown one, since a misspelt demand would demand nothing
 */
export function parsePolicy(text: string): VerificationPolicy {
  const file = JsonObject.parse(text, 'the policy')
  // JSON.parse rounds a fraction near an integer to it.
  const fraction = fractionIn(text)
  if (fraction !== undefined) throw malformed(fraction)
  // The contract lies at the app id and governs keys of that contract's KMS: without both pins a host can supply another pair.
  if (file.has('kms') && !(file.has('app_ids') && file.has('key_providers')))
    throw new Refused('the policy names kms, so it must pin app_ids and key_providers')
  const policy = closed<Demands>(file, {
    compose_hashes: file.optional('compose_hashes', hexList(file, 32)),
    tcb_statuses: file.optional('tcb_statuses', listOf(file, oneOf(TCB_STATUSES))) ?? [],
    advisories: file.texts('advisories'),
    tcb_evaluation_min: file.optional('tcb_evaluation_min', positive(file)),
    os_image_hashes: file.optional('os_image_hashes', hexList(file, 32)),
    registers: file.optional('registers', objectsOf(file, readRegisters)),
    environment_names: file.texts('environment_names'),
    permitted_skips: readSkipReasons(file.texts('permitted_skips')),
    roots_pem: file.optional('roots_pem', (field) => certificates(file.text(field), field)),
    ppids: file.optional('ppids', hexList(file, 16)),
    xfam_mask: file.optional('xfam_mask', (field) => mask(file.text(field), field)),
    app_ids: file.optional('app_ids', hexList(file, 20)),
    key_providers: file.optional('key_providers', objectsOf(file, readProvider)),
    rpc_operators: file.optional('rpc_operators', (field) => readRpcOperators(file.object(field))),
    location: file.optional('location', (field) => readLocation(file.object(field))),
    collateral_url: file.optional('collateral_url', (field) => url(file, field)),
    chain: file.optional('chain', (field) => readChain(file.object(field))),
    kms: file.optional('kms', (field) => readKms(file.object(field))),
  })
  requireDistinctNodes(policy)
  PARSED.add(policy)
  return policy as VerificationPolicy
}

/** The fields of one object, each once, frozen; any other is a misspelt demand. An optional one is absent, not undefined. */
function closed<T extends object>(object: JsonObject, fields: { [K in keyof T]-?: T[K] | undefined }): T {
  object.only(Object.keys(fields))
  const stated = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.freeze(Object.fromEntries(stated.map(([name, value]) => [name, Object.freeze(value)]))) as T
}

/** A demand that names nothing would be a skip or a failure by accident. */
function named<T>(list: T[], field: string): T[] {
  if (list.length === 0) throw new Refused(`the policy's ${field} is empty: name something or leave it out`)
  return list
}
const listOf =
  <T>(object: JsonObject, read: (text: string, field: string) => T) =>
  (field: string): T[] =>
    named(
      object.texts(field).map((text) => read(text, field)),
      field,
    )
const objectsOf =
  <T>(object: JsonObject, read: (inner: JsonObject) => T) =>
  (field: string): T[] =>
    named(object.objects(field).map(read), field)
/** From 1 on. */
const positive =
  (object: JsonObject) =>
  (field: string): number => {
    const value = object.integer(field)
    if (value === 0) throw new Refused(`the policy's ${field} is 0, which demands nothing: leave it out`)
    return value
  }
function nameOf(object: JsonObject): string {
  const text = object.text('name')
  if (text === '') throw malformed('name')
  return text
}
const malformed = (field: string): Refused => new Refused(`the policy has no well formed ${field}`)
const hexList = (object: JsonObject, width: number) => listOf(object, (text) => hex(text, width))

function readProvider(provider: JsonObject): KeyProvider {
  const [name, id] = [nameOf(provider), provider.text('id')]
  if (!/^(?:[0-9a-f]{2})*$/.test(id)) throw new Refused('the policy has a malformed key provider')
  // A name alone identifies no operator: any host can run a KMS.
  if (name === 'kms' && id === '') throw new Refused('the policy pins a kms without its id')
  return closed<KeyProvider>(provider, { name, id })
}

function readRpcOperators(policy: JsonObject): RpcOperatorsPolicy {
  const operators = objectsOf(policy, (operator) =>
    closed<RpcOperator>(operator, { name: nameOf(operator), hosts: listOf(operator, host)('hosts') }),
  )('operators')
  // Two ports of one machine have one operator.
  const machines = operators.map(({ hosts }) => new Set(hosts.map(withoutPort)))
  requireDistinct([
    operators.map(({ name }) => name),
    operators.flatMap(({ hosts }) => hosts),
    machines.flatMap((names) => [...names]),
  ])
  return closed<RpcOperatorsPolicy>(policy, { operators, minimum: count(policy, operators.length) })
}

const withoutPort = (named: string): string => named.replace(/:\d+$/, '')

function readLocation(policy: JsonObject): LocationPolicy {
  const authorities = objectsOf(policy, readAuthority)('authorities')
  const keys = authorities.flatMap((one) => ('key' in one ? [one.key] : []))
  requireDistinct([authorities.map(({ name }) => name), keys])
  return closed<LocationPolicy>(policy, { authorities, minimum: count(policy, authorities.length) })
}

function readAuthority(authority: JsonObject): LocationAuthority {
  const name = nameOf(authority)
  if (authority.has('ppids')) return closed(authority, { name, ppids: hexList(authority, 16)('ppids') })
  const signing = { name, key: base58(authority.text('key')), url: url(authority, 'url') }
  if (!authority.has('log'))
    return closed(authority, { ...signing, levels: listOf(authority, oneOf(LOCATION_LEVELS))('levels') })
  const log = readLog(authority.object('log'))
  // One key could sign a statement and a log of it that no other client sees.
  if (log.key === signing.key) throw new Refused('the policy names one key for an authority and its log')
  return closed(authority, { ...signing, log })
}

function readLog(log: JsonObject): LocationLog {
  const [key, size, root] = [base58(log.text('key')), log.safeInteger('size'), hex(log.text('root'), 32)]
  if (size === 0) throw new Refused('the policy pins the head of an empty log')
  return closed<LocationLog>(log, { key, size, root })
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
  const parsed = URL.canParse(`https://${text}`) ? new URL(`https://${text}`) : undefined
  // A final dot gives one host a second name.
  if (parsed?.host !== text || parsed.hostname.endsWith('.'))
    throw new Refused(`the policy has a malformed host ${text}`)
  return text
}

/** One host under two paths or ports, or two hosts of one operator, are one witness. */
function requireDistinctNodes({
  chain,
  rpc_operators: { operators } = { operators: [], minimum: 0 },
}: Demands): void {
  if (chain === undefined) return
  const names = [chain.rpc_url, ...(chain.witness_rpc_urls ?? [])].map((text) => {
    const machine = new URL(text).hostname.replace(/\.$/, '')
    return operators.find(({ hosts }) => hosts.some((one) => withoutPort(one) === machine))?.name ?? machine
  })
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw new Refused(`the policy names ${twice} for two nodes of the chain`)
}

function readChain(chain: JsonObject): ChainPolicy {
  return closed<ChainPolicy>(chain, {
    rpc_url: url(chain, 'rpc_url'),
    witness_rpc_urls: chain.optional('witness_rpc_urls', listOf(chain, urlText)),
    program_id: base58(chain.text('program_id')),
    genesis_hash: chain.optional('genesis_hash', (field) => base58(chain.text(field))),
    program_sha256: chain.optional('program_sha256', (field) => hex(chain.text(field), 32)),
    program_bytes: chain.optional('program_bytes', positive(chain)),
    upgrade_authorities: chain.texts('upgrade_authorities').map(base58),
    pending_actions: chain
      .texts('pending_actions')
      .map((text) => oneOf(PENDING_ACTIONS)(text, 'pending_actions')),
    paused_allowed: chain.optional('paused_allowed', (field) => chain.boolean(field)) ?? false,
    exit_delay_min_s: chain.optional('exit_delay_min_s', positive(chain)),
    admins: chain.optional('admins', listOf(chain, base58)),
    epoch_authorities: chain.optional('epoch_authorities', listOf(chain, base58)),
  })
}

function readKms(kms: JsonObject): KmsPolicy {
  if (kms.has('timelock_min_s') && !kms.has('owners'))
    throw new Refused('the policy asks for a timelock, so it must pin owners')
  return closed<KmsPolicy>(kms, {
    rpc_url: url(kms, 'rpc_url'),
    owners: kms.optional('owners', listOf(kms, ethereumAddress)),
    timelock_min_s: kms.optional('timelock_min_s', positive(kms)),
  })
}

/** In any case; kept in lowercase. */
function ethereumAddress(text: string): string {
  const lower = text.toLowerCase()
  if (!/^0x[0-9a-f]{40}$/.test(lower))
    throw new Refused('the policy has an owner that is not 0x and 40 hex digits')
  return lower
}

function readRegisters(tuple: JsonObject): RegisterTuple {
  const register = (name: 'mrtd' | 'rtmr0' | 'rtmr1' | 'rtmr2') => hex(tuple.text(name), 48)
  return closed<RegisterTuple>(tuple, {
    mrtd: register('mrtd'),
    rtmr0: register('rtmr0'),
    rtmr1: register('rtmr1'),
    rtmr2: register('rtmr2'),
    xfam: tuple.optional('xfam', (field) => hex(tuple.text(field), 8)),
  })
}

function hex(text: string, width: number): string {
  if (fromHex(text, width) === undefined)
    throw new Refused(`the policy has a value that is not ${width * 2} hex digits`)
  return text
}

function mask(text: string, field: string): string {
  if (/^f+$/.test(hex(text, 8)))
    throw new Refused(`the policy's ${field} names every feature, which demands nothing: leave it out`)
  return text
}

function certificates(text: string, field: string): string {
  let ders = derOfPem(text, 'CERTIFICATE')
  try {
    ders?.forEach(readCertificate)
  } catch {
    ders = undefined
  }
  if (ders === undefined) throw malformed(field)
  return text
}

function base58(text: string): string {
  if (decodeBase58(text, 32) === undefined) throw new Refused('the policy has a malformed base58 value')
  return text
}

const url = (file: JsonObject, field: string): string => urlText(file.text(field), field)

function urlText(text: string, field: string): string {
  // A path that is appended to a fragment is never sent.
  if (!/^https?:\/\/[^#]+$/i.test(text) || !URL.canParse(text)) throw malformed(field)
  return text
}

const oneOf =
  <T extends string>(known: readonly T[]) =>
  (text: string, field: string): T => {
    const found = known.find((one) => one === text)
    if (found === undefined) throw new Refused(`the policy's ${field} do not know ${text}`)
    return found
  }

/** The policy without a file: real, current hardware; checks of other demands are skipped and not permitted. */
export const BARE_POLICY = parsePolicy('{"tcb_statuses":["UpToDate"]}')

/**
 * Codes are stable. A reason names a gap in the policy or the call, or a fact that the platform hides: a machine cannot turn a
 * failing check into a skip that the policy permits for another reason.
 */
export const SKIP_REASONS = {
  xfam_unpinned: 'the policy names no processor features',
  mr_config_id_absent: 'the machine was started without MRCONFIGID',
  app_unpinned: 'the policy pins no app id',
  key_provider_unpinned: 'the policy pins no key provider',
  compose_hash_unpinned: 'the policy pins no manifest',
  manifest_absent: 'the manifest text is not at hand',
  rpc_operators_unpinned: 'the policy names no RPC operators',
  os_image_unpinned: 'the policy names no operating system',
  tls_key_hidden: 'this platform does not show a connection its TLS key',
  chain_unnamed: 'the policy names no chain',
  kms_without_contract: 'the policy names no KMS contract',
  keys_without_kms: 'the app keys come from no KMS',
  kms_owner_unpinned: "the policy pins no owner of the app's contract",
  exit_delay_unpinned: 'the policy names no minimum of exit_delay_s',
  admin_unpinned: 'the policy pins no administrator',
  machines_unpinned: 'the policy lists no machines',
  location_unnamed: 'the policy names no authority for locations',
} as const
export type SkipReason = keyof typeof SKIP_REASONS

/** The reasons that a policy could permit for a check when it listed names of checks. */
const REASONS_OF_CHECK: Record<string, readonly SkipReason[]> = {
  mr_config_id: ['mr_config_id_absent'],
  compose_hash: ['compose_hash_unpinned'],
  manifest: ['manifest_absent'],
  os_image: ['os_image_unpinned'],
  tls_key: ['tls_key_hidden'],
  settlement_signer: ['chain_unnamed'],
  vault_state: ['chain_unnamed'],
  program: ['chain_unnamed'],
  kms: ['kms_without_contract', 'keys_without_kms'],
}

/** @throws Refused for another code; for the name of a check the message says how to rewrite it */
function readSkipReasons(texts: readonly string[]): SkipReason[] {
  return texts.map((text) => {
    if (Object.hasOwn(SKIP_REASONS, text)) return text as SkipReason
    if (!Object.hasOwn(REASONS_OF_CHECK, text))
      throw new Refused(`the policy's permitted_skips do not know ${text}`)
    const codes = REASONS_OF_CHECK[text]!.join(' or ')
    throw new Refused(
      `the policy's permitted_skips list reasons, not checks: instead of ${text} write ${codes}`,
    )
  })
}
