/** Reads the whole configuration from an environment, or names every fault at once. */
import type { EngineConfig, ReferenceSources } from '../../engine/config'
import { decodeBase58 } from '../../protocol/base58'
import { Refusal } from '../../protocol/refusals'
import { formOf } from '../edge/body'
import { Instrument } from '../shapes/venue'
import { Address, exact, Integer, PublicKey, SymbolName, type TSchema, t, U64 } from '../shapes/wire'
import { listenAddress, SETTINGS } from './settings'

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
  /** Undefined on the embedded chain, which brings its own. */
  program_id: Uint8Array | undefined
  slot_ms: number
  /** Version of the transactions the venue signs. */
  transactions: 0 | 1
  /** All but what the enclave and the package know. */
  engine: Omit<EngineConfig, 'compose_hash' | 'tacit_version'>
}
export type AcmeConfig = {
  directory_url: string
  challenge: 'tls-alpn-01' | 'dns-01'
  /** Base64 DER, or empty. */
  root: string
  dns: { url: string; record_name: string; credentials: string }
}
export type ConfigOutcome = { config: Config; faults?: never } | { config?: never; faults: string[] }

const { status: _status, ...instrumentFields } = Instrument.properties
const Instruments = t.Array(exact(instrumentFields))
const Mints = t.Array(
  exact({ mint: Address, decimals: Integer(0, 18), min_withdraw: U64, withdraw_fee: U64 }),
)

const Sources = t.Array(
  exact({
    symbol: SymbolName,
    max_age_ms: Integer(1, 2 ** 32),
    sources: t.Array(exact({ source: t.String({ minLength: 1, maxLength: 16 }), key: PublicKey })),
  }),
)

export function readConfig(environment: Environment): ConfigOutcome {
  const faults = [...unknownSettings(environment), ...formFaults(environment)]
  const text = (name: string) => textOf(environment, name)
  if (faults.length > 0) return { faults }
  const instruments = listOf(Instruments, 'TACIT_INSTRUMENTS', text('TACIT_INSTRUMENTS'), faults)
  const mints = listOf(Mints, 'TACIT_MINTS', text('TACIT_MINTS'), faults)
  const sources = listOf(Sources, 'TACIT_REFERENCE_SOURCES', text('TACIT_REFERENCE_SOURCES'), faults)
  faults.push(...contradictions(text))
  if (faults.length > 0) return { faults }
  const embedded = text('SOLANA_RPC_URL') === 'embedded'
  return {
    config: {
      listen: listenAddress(text('TACIT_LISTEN'))!,
      operator_listen: listenAddress(text('TACIT_OPERATOR_LISTEN'))!,
      dstack_socket: text('TACIT_DSTACK_SOCKET'),
      tls_names: text('TACIT_TLS_NAMES')
        .split(',')
        .filter((name) => name !== ''),
      acme: acmeConfig(text),
      swagger: text('TACIT_SWAGGER') === 'on',
      rpc_urls: embedded ? undefined : text('SOLANA_RPC_URL').split(','),
      program_id: decodeBase58(text('TACIT_PROGRAM_ID'), 32),
      slot_ms: Number(text('TACIT_SLOT_MS')),
      transactions: text('TACIT_SETTLEMENT_TRANSACTIONS') === 'v0' ? 0 : 1,
      engine: {
        data_dir: text('TACIT_DATA_DIR'),
        instruments: instruments as EngineConfig['instruments'],
        mints: mints as EngineConfig['mints'],
        reference_sources: sources as ReferenceSources[],
        fee_key: text('TACIT_FEE_KEY'),
        fee_anchor: text('TACIT_FEE_ANCHOR'),
        operator_key: text('TACIT_OPERATOR_KEY'),
        enclave: text('TACIT_ENCLAVE') as EngineConfig['enclave'],
        token_ttl_s: Number(text('TACIT_TOKEN_TTL_S')),
        order_life_slots_max: Number(text('TACIT_ORDER_LIFE_SLOTS_MAX')),
        settlement_parts_max: Number(text('TACIT_SETTLEMENT_PARTS_MAX')),
        retention_days: Number(text('TACIT_RETENTION_DAYS')),
        restore_from_chain: text('TACIT_RESTORE_FROM_CHAIN') === 'on',
      },
    },
  }
}

function acmeConfig(text: (name: string) => string): AcmeConfig | undefined {
  const directory_url = text('TACIT_ACME_DIRECTORY')
  if (directory_url === '') return undefined
  return {
    directory_url,
    challenge: text('TACIT_ACME_CHALLENGE') as AcmeConfig['challenge'],
    root: text('TACIT_ACME_ROOT'),
    dns: {
      url: text('TACIT_ACME_DNS_URL'),
      record_name: text('TACIT_ACME_DNS_NAME'),
      credentials: text('TACIT_ACME_DNS_SECRET'),
    },
  }
}

/** The settings as they are in force, secrets masked. */
export function printedSettings(environment: Environment): string {
  const lines = SETTINGS.map(({ name, secret }) => {
    const text = textOf(environment, name)
    return `${name}=${secret === true && text !== '' ? '(set)' : text}`
  })
  return lines.join('\n')
}

function textOf(environment: Environment, name: string): string {
  return environment[name] ?? SETTINGS.find((setting) => setting.name === name)?.fallback ?? ''
}

function unknownSettings(environment: Environment): string[] {
  const known = new Set(SETTINGS.map(({ name }) => name))
  return Object.keys(environment)
    .filter((name) => name.startsWith('TACIT_') && !known.has(name))
    .map((name) => `${name}: no such setting`)
}

function formFaults(environment: Environment): string[] {
  return SETTINGS.flatMap(({ name, fallback, fault }) => {
    const text = environment[name] ?? fallback
    if (text === undefined) return [`${name}: required`]
    const found = fault(text)
    return found === undefined ? [] : [`${name}: ${found}`]
  })
}

function listOf(schema: TSchema, name: string, text: string, faults: string[]): unknown {
  try {
    return formOf(schema, 'list').check(JSON.parse(text))
  } catch (fault) {
    const field = fault instanceof Refusal ? `${fault.facts.field} (${fault.code})` : 'unreadable'
    faults.push(`${name}: ${field}`)
    return []
  }
}

/** Order parts in one packet: 458 bytes besides them, 128 each, 1,232 in all. */
const V0_PARTS_MAX = 6

/** Settings that are each well formed and must not stand together. */
function contradictions(text: (name: string) => string): string[] {
  const faults: string[] = []
  const embedded = text('SOLANA_RPC_URL') === 'embedded'
  const production = text('TACIT_ENCLAVE') === 'dstack'
  // A copy of the venue on a chain of its own would answer questions about the hidden book.
  if (embedded && production) faults.push('SOLANA_RPC_URL: embedded is refused with TACIT_ENCLAVE=dstack')
  if (!embedded && text('TACIT_PROGRAM_ID') === '')
    faults.push('TACIT_PROGRAM_ID: required with a real chain')
  if (embedded && text('TACIT_PROGRAM_ID') !== '') {
    faults.push('TACIT_PROGRAM_ID: the embedded chain brings its own')
  }
  const parts_max = Number(text('TACIT_SETTLEMENT_PARTS_MAX'))
  if (text('TACIT_SETTLEMENT_TRANSACTIONS') === 'v0' && parts_max > V0_PARTS_MAX)
    faults.push(`TACIT_SETTLEMENT_PARTS_MAX: at most ${V0_PARTS_MAX} with TACIT_SETTLEMENT_TRANSACTIONS=v0`)
  if (text('TACIT_ACME_DIRECTORY') !== '') faults.push(...acmeContradictions(text))
  const port = listenAddress(text('TACIT_LISTEN'))!.port
  if (port !== 0 && port === listenAddress(text('TACIT_OPERATOR_LISTEN'))!.port) {
    faults.push('TACIT_OPERATOR_LISTEN: the port of TACIT_LISTEN')
  }
  return faults
}

/** An authority certifies names it can look up, and only where the challenge can be answered. */
function acmeContradictions(text: (name: string) => string): string[] {
  const faults: string[] = []
  const names = text('TACIT_TLS_NAMES')
  const public_name = /^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*$/
  if (!names.split(',').every((name) => public_name.test(name)))
    faults.push('TACIT_TLS_NAMES: lowercase DNS names only with TACIT_ACME_DIRECTORY, one at least')
  if (text('TACIT_ACME_CHALLENGE') === 'dns-01' && text('TACIT_ACME_DNS_URL') === '')
    faults.push('TACIT_ACME_DNS_URL: required for dns-01')
  return faults
}
