/** Reads the configuration from an environment, judges it before a start, or lists all errors at once. */

import { existsSync } from 'node:fs'
import type { EngineConfig } from '../../engine/config'
import { isSecretName } from '../../protocol/tdx/venue_manifest'
import { pemOfDer } from '../../protocol/x509/certificate'
import { Fault, isSettingName, SETTING_NAMES, SETTINGS, type SettingName, type Settings } from './settings'

export type Environment = Readonly<Record<string, string | undefined>>
export type Config = {
  listen: { hostname: string; port: number }
  operator_listen: { hostname: string; port: number }
  dstack_socket: string
  tls_names: string[]
  /** Undefined: the certificate is self-signed. */
  acme: AcmeConfig | undefined
  swagger: boolean
  /** JSON-RPC endpoints; undefined on the embedded chain. */
  rpc_urls: string[] | undefined
  /** Endpoints that only receive transactions. */
  rpc_send_urls: string[]
  /** Undefined on the embedded chain, which brings its own. */
  program_id: Uint8Array | undefined
  slot_ms: number
  /** Without the values that the enclave, the package and the self-check supply. */
  engine: Omit<EngineConfig, 'compose_hash' | 'tacit_version' | 'self_check_reasons'>
}
export type AcmeConfig = {
  directory_url: string
  challenge: 'tls-alpn-01' | 'dns-01'
  /** Base64 DER, or empty. */
  root: string
  dns: { url: string; record_name: string; credentials: string }
}
type ConfigOutcome = { config: Config; faults?: never } | { config?: Config; faults: string[] }

/**
 * Reports every error at once: unknown names, malformed settings, wrong entries of lists, and settings that are each
 * well-formed and exclude one another. `config` is given with the errors when every setting could be parsed.
 */
export function readConfig(environment: Environment): ConfigOutcome {
  const outcomes = SETTING_NAMES.map((name) => [name, readSetting(name, environment[name])] as const)
  const faultsOf = (in_entry: boolean) =>
    outcomes.flatMap(([name, outcome]) =>
      outcome instanceof Fault && outcome.in_entry === in_entry ? [`${name}: ${outcome.sentence}`] : [],
    )
  const wrong = [...unknownSettings(environment), ...faultsOf(false), ...faultsOf(true).sort()]
  const read = Object.fromEntries(outcomes.filter(([, outcome]) => !(outcome instanceof Fault)))
  const faults = [...wrong, ...contradictions(read)]
  if (faults.length === 0) return { config: configOf(read as Settings) }
  return Object.keys(read).length < outcomes.length
    ? { faults }
    : { faults, config: configOf(read as Settings) }
}

function readSetting(name: SettingName, given: string | undefined): unknown {
  const { fallback, read } = SETTINGS[name]
  const text = given ?? fallback
  return text === undefined ? new Fault('required') : read(text)
}

function unknownSettings(environment: Environment): string[] {
  return Object.keys(environment)
    .filter((name) => name.startsWith('TACIT_') && !isSettingName(name))
    .map((name) => `${name}: no such setting`)
}

function configOf(read: Settings): Config {
  return {
    listen: read.TACIT_LISTEN,
    operator_listen: read.TACIT_OPERATOR_LISTEN,
    dstack_socket: read.TACIT_DSTACK_SOCKET,
    tls_names: read.TACIT_TLS_NAMES,
    acme: acmeConfig(read),
    swagger: read.TACIT_SWAGGER,
    rpc_urls: read.SOLANA_RPC_URL,
    rpc_send_urls: read.TACIT_RPC_SEND_URLS,
    program_id: read.TACIT_PROGRAM_ID,
    slot_ms: read.TACIT_SLOT_MS,
    engine: {
      data_dir: read.TACIT_DATA_DIR,
      instruments: read.TACIT_INSTRUMENTS,
      mints: read.TACIT_MINTS,
      reference_sources: read.TACIT_REFERENCE_SOURCES,
      fee_key: read.TACIT_FEE_KEY,
      fee_anchor: read.TACIT_FEE_ANCHOR,
      operator_key: read.TACIT_OPERATOR_KEY,
      auditor_key: read.TACIT_AUDITOR_KEY,
      enclave: read.TACIT_ENCLAVE,
      token_ttl_s: read.TACIT_TOKEN_TTL_S,
      order_life_slots_max: read.TACIT_ORDER_LIFE_SLOTS_MAX,
      settlement_parts_max: read.TACIT_SETTLEMENT_PARTS_MAX,
      retention_days: read.TACIT_RETENTION_DAYS,
      lease_ms: read.TACIT_LEASE_MS,
      anchor_max_ms: read.TACIT_ANCHOR_MAX_MS,
      commit_ms: read.TACIT_COMMIT_MS,
      reopen_slots: read.TACIT_REOPEN_SLOTS,
      ...clusterConfig(read),
    },
  }
}

/** Members of etcd as the settings name them. */
export function clusterConfig(
  read: Pick<Settings, 'TACIT_ETCD_URLS' | 'TACIT_ETCD_CA' | 'TACIT_ETCD_CERT' | 'TACIT_ETCD_KEY'> &
    Partial<Pick<Settings, 'TACIT_NODE_URL'>>,
): Pick<EngineConfig, 'cluster'> {
  const endpoints = read.TACIT_ETCD_URLS
  if (endpoints.length === 0) return {}
  const pem = (base64: string, label: string) =>
    pemOfDer(new Uint8Array(Buffer.from(base64, 'base64')), label)
  const tls = {
    ca: pem(read.TACIT_ETCD_CA, 'CERTIFICATE'),
    cert: pem(read.TACIT_ETCD_CERT, 'CERTIFICATE'),
    key: pem(read.TACIT_ETCD_KEY, 'PRIVATE KEY'),
  }
  return { cluster: { endpoints, tls, url: read.TACIT_NODE_URL ?? '' } }
}

function acmeConfig(read: Settings): AcmeConfig | undefined {
  if (read.TACIT_ACME_DIRECTORY === '') return undefined
  return {
    directory_url: read.TACIT_ACME_DIRECTORY,
    challenge: read.TACIT_ACME_CHALLENGE,
    root: read.TACIT_ACME_ROOT,
    dns: {
      url: read.TACIT_ACME_DNS_URL,
      record_name: read.TACIT_ACME_DNS_NAME,
      credentials: read.TACIT_ACME_DNS_SECRET,
    },
  }
}

/** The effective settings, each after a line with its meaning, with secrets masked. */
export function printedSettings(environment: Environment): string {
  const lines = SETTING_NAMES.map((name) => {
    const text = environment[name] ?? SETTINGS[name].fallback ?? ''
    return `# ${SETTINGS[name].meaning}\n${name}=${isSecretName(name) && text !== '' ? '(set)' : text}`
  })
  return lines.join('\n')
}

/** Errors of settings that are each well-formed and exclude one another. `read` lacks malformed ones. */
function contradictions(read: Partial<Settings>): string[] {
  const faults: string[] = []
  const has = (...names: SettingName[]) => names.every((name) => Object.hasOwn(read, name))
  const production = read.TACIT_ENCLAVE === 'dstack'
  const providers = read.SOLANA_RPC_URL
  if (has('SOLANA_RPC_URL')) {
    const embedded = providers === undefined
    // A copy of the venue on a private chain would reveal the hidden book.
    if (embedded && production) faults.push('SOLANA_RPC_URL: embedded is refused with TACIT_ENCLAVE=dstack')
    if (production && providers?.length === 1)
      faults.push('SOLANA_RPC_URL: two providers at least with TACIT_ENCLAVE=dstack')
    const has_program = read.TACIT_PROGRAM_ID !== undefined
    if (!embedded && has('TACIT_PROGRAM_ID') && !has_program)
      faults.push('TACIT_PROGRAM_ID: required with a real chain')
    if (embedded && has_program) faults.push('TACIT_PROGRAM_ID: the embedded chain brings its own')
  }
  // An attacker on the network could show another chain, or read a key in the URL.
  for (const name of ['SOLANA_RPC_URL', 'TACIT_RPC_SEND_URLS'] as const)
    if (production && read[name]?.some((url) => new URL(url).protocol !== 'https:'))
      faults.push(`${name}: https only with TACIT_ENCLAVE=dstack`)
  if (read.TACIT_ACME_DIRECTORY) faults.push(...acmeContradictions(read))
  if (read.TACIT_ETCD_URLS?.length) {
    for (const name of ['TACIT_ETCD_CA', 'TACIT_ETCD_CERT', 'TACIT_ETCD_KEY'] as const)
      if (read[name] === '') faults.push(`${name}: required with TACIT_ETCD_URLS`)
    if (production && new Set(read.TACIT_ETCD_URLS.map((url) => new URL(url).host)).size < 3)
      faults.push('TACIT_ETCD_URLS: three members at least with TACIT_ENCLAVE=dstack')
  }
  const port = read.TACIT_LISTEN?.port ?? 0
  if (port !== 0 && port === read.TACIT_OPERATOR_LISTEN?.port)
    faults.push(
      `TACIT_OPERATOR_LISTEN: TACIT_LISTEN has the same port, ${port}: choose another for one of them`,
    )
  return faults
}

/** An authority certifies names that it can resolve, and only where the challenge can be answered. */
function acmeContradictions(read: Partial<Settings>): string[] {
  const faults: string[] = []
  const names = read.TACIT_TLS_NAMES
  const public_name = /^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*$/
  if (names !== undefined && (names.length === 0 || !names.every((name) => public_name.test(name))))
    faults.push('TACIT_TLS_NAMES: lowercase DNS names only with TACIT_ACME_DIRECTORY, one at least')
  if (read.TACIT_ACME_CHALLENGE === 'dns-01' && read.TACIT_ACME_DNS_URL === '')
    faults.push('TACIT_ACME_DNS_URL: required for dns-01')
  return faults
}

const AGENT_SOCKET = '/var/run/dstack.sock'

/**
 * The sandbox has a default for every setting, so it must never run in a deployment: where a guest agent listens, or where
 * TACIT_ENCLAVE names a real enclave, a missing setting is a user error.
 */
export function isSandbox(environment: Environment): boolean {
  const enclave = environment['TACIT_ENCLAVE']
  if (enclave !== undefined) return enclave === 'development'
  return !existsSync(AGENT_SOCKET)
}

/** Why the sandbox could not be imported and what to do; undefined for an error other than a missing module. */
export function missingSandbox(error: unknown, environment: Environment): string | undefined {
  if (!(error instanceof ResolveMessage)) return undefined
  const cause =
    environment['TACIT_ENCLAVE'] === undefined
      ? `not set, and no guest agent listens on ${AGENT_SOCKET}, so the venue needs the sandbox`
      : 'development needs the sandbox'
  if (!error.specifier.endsWith('sandbox/open_sandbox'))
    return `TACIT_ENCLAVE: ${cause}, which does not load: ${error.message}. Run \`bun install\` in a complete checkout`
  return (
    `TACIT_ENCLAVE: ${cause}, and this build does not contain it (the folder sandbox/ is missing). On an attested machine ` +
    'set TACIT_ENCLAVE=dstack; to try the venue, run `bun run dev` in a checkout of the repository'
  )
}

/**
 * Names that are not settings, with their values where one is fixed. A manifest cannot set any of them, because its environment
 * lists settings only.
 */
const ALLOWED: Readonly<Record<string, readonly string[] | 'any'>> = {
  // Of the container runtime and the base image.
  PATH: 'any',
  HOSTNAME: 'any',
  SSL_CERT_FILE: ['/etc/ssl/certs/ca-certificates.crt'],
  // Of the Dockerfile. A home folder elsewhere could hold a bunfig.toml, which runs code.
  HOME: ['/tmp'],
  NODE_ENV: ['production'],
  BUN_RUNTIME_TRANSPILER_CACHE_PATH: ['0'],
  DO_NOT_TRACK: ['1'],
  // Milliseconds: the allocator looks for memory to give back once a second; more often costs each order 4 us.
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: ['1000'],
}

/**
 * Such a name changes the process without changing its code: LD_PRELOAD, BUN_OPTIONS, NODE_TLS_REJECT_UNAUTHORIZED,
 * HTTPS_PROXY. Code that a loader variable brought in has run before this check, so the manifest's linter is the first
 * guard. Names that begin with TACIT_ are left to the settings.
 * @returns one line per name, without its value
 */
export function foreignNames(environment: Environment): string[] {
  return Object.keys(environment).flatMap((name) => {
    const value = environment[name]
    // Bun lists some names that are not set.
    if (value === undefined || name.startsWith('TACIT_') || isSettingName(name)) return []
    const allowed = Object.hasOwn(ALLOWED, name) ? ALLOWED[name] : undefined
    if (allowed === undefined) return [`${name}: not allowed in the environment of a deployment`]
    if (allowed === 'any' || allowed.includes(value)) return []
    return [`${name}: must be ${allowed.join(' or ')} in a deployment`]
  })
}

const CAUSES: Readonly<Record<string, string>> = {
  ENOSPC: "the volume is full: make it larger or delete what is not the venue's",
  EDQUOT: 'the quota of the volume is used up: raise it',
  EROFS: 'the volume is mounted read-only: mount it for writing',
  EACCES: 'this user may not use the file: correct owner or mode',
  EPERM: 'this user may not use the file: correct owner or mode',
  ENOENT: 'a file or socket is missing: put it back, or correct the setting that names it',
  ENOTDIR: 'a file is where a folder is needed: correct the setting that names it',
  EEXIST: 'a file is where a folder is needed: move it away',
  EIO: "the disk answers with errors: read the kernel's log and replace the volume",
  EMFILE: 'too many open files: raise the limit of the process',
}

/** @param data_dir folder of the venue's data, named where the error names no file */
export function startFault(error: unknown, data_dir: string): string {
  if (!(error instanceof Error)) return 'the venue did not start'
  const { code, path } = error as NodeJS.ErrnoException
  if (code === undefined || !Object.hasOwn(CAUSES, code)) return error.message
  return `${error.message}\n${path ?? data_dir}: ${CAUSES[code]}`
}
