/**
 * Defines every setting that the process reads from its environment: meaning, default and parser. Names, secrets and the
 * values of a manifest are in `protocol/tdx/venue_manifest.ts`, which clients read too.
 */

import { LIMITS } from '../../engine/limits'
import { isAgeRecipient } from '../../protocol/age'
import { decodeBase58 } from '../../protocol/base58'
import { Refusal } from '../../protocol/refusals'
import type { VenueSetting } from '../../protocol/tdx/venue_manifest'
import { Decimals, InstrumentTerms } from '../../protocol/wire/public'
import {
  Address,
  exact,
  Integer,
  PublicKey,
  parserOf,
  type Static,
  SymbolName,
  type TSchema,
  t,
  U64,
} from '../../protocol/wire/values'
import { EMBEDDED_SLOT_MAX_MS, EMBEDDED_SLOT_MIN_MS } from '../limits'

type Setting<T> = {
  readonly meaning: string
  /** Default text; without it the setting is required. Security and chain settings have none. */
  readonly fallback?: string
  /** Parses the text. */
  readonly read: (text: string) => T | Fault
}

/** The reason why a text is rejected, without the text. */
export class Fault {
  constructor(
    readonly sentence: string,
    /** The text is a list with a wrong entry. */
    readonly in_entry = false,
  ) {}
}
const expected = (form: string) => new Fault(`expected ${form}`)

const KEY_FORM = '32 bytes in base58'
const Mint = exact({ mint: Address, decimals: Decimals, min_withdraw: U64, withdraw_fee: U64 })
const ReferenceSource = exact({
  symbol: SymbolName,
  max_age_ms: Integer(1, 2 ** 32),
  sources: t.Array(exact({ source: t.String({ minLength: 1, maxLength: 16 }), key: PublicKey })),
})

const ROWS = {
  TACIT_DATA_DIR: {
    meaning: 'Folder of the journal, snapshots and read models.',
    read: textIf('a folder', (text) => text !== ''),
  },
  TACIT_LISTEN: {
    meaning: 'Address and port of the venue, TLS 1.3.',
    read: (text) => listenAddress(text) ?? expected('ADDRESS:PORT, with PORT from 1 to 65535'),
  },
  TACIT_OPERATOR_LISTEN: {
    meaning: 'Address and port for the operator; never the port of the venue.',
    read: (text) => listenAddress(text) ?? expected('ADDRESS:PORT, with PORT from 1 to 65535'),
  },
  TACIT_ENCLAVE: {
    meaning: '`dstack` in production; `development` runs on quotes no verifier trusts.',
    read: oneOf({ dstack: 'dstack', development: 'development' }),
  },
  TACIT_DSTACK_SOCKET: {
    meaning: 'Unix socket of the guest agent.',
    fallback: '/var/run/dstack.sock',
    read: textIf('an absolute path', (text) => text.startsWith('/')),
  },
  TACIT_TLS_NAMES: {
    meaning: 'DNS names and IPv4 addresses of the certificate, beside localhost; separated by commas.',
    fallback: '',
    read: tlsNames,
  },
  TACIT_ACME_DIRECTORY: {
    meaning:
      'ACME directory of a public certificate for TACIT_TLS_NAMES; naming it agrees to its terms. Empty: self-signed.',
    fallback: '',
    read: httpsUrl,
  },
  TACIT_ACME_CHALLENGE: {
    meaning: 'How the authority sees that the names are ours; tls-alpn-01 needs no DNS credentials.',
    fallback: 'tls-alpn-01',
    read: oneOf({ 'tls-alpn-01': 'tls-alpn-01', 'dns-01': 'dns-01' }),
  },
  TACIT_ACME_ROOT: {
    meaning:
      'Root certificate of a private directory and DNS API, base64 DER. Empty: the public authorities.',
    fallback: '',
    read: textIf('base64', isBase64),
  },
  TACIT_ACME_DNS_URL: {
    meaning: 'HTTP API that writes challenge records (`/present`, `/cleanup`); for dns-01.',
    fallback: '',
    read: httpsUrl,
  },
  TACIT_ACME_DNS_NAME: {
    meaning:
      'Record the CNAME of `_acme-challenge.NAME` points to, in a separate zone. Empty: that name itself.',
    fallback: '',
    read: textIf('a DNS name or nothing', (text) => /^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+)?$/.test(text)),
  },
  TACIT_ACME_DNS_SECRET: {
    meaning: 'USER:PASSWORD of the HTTP API; good for challenge records only.',
    fallback: '',
    read: textIf('USER:PASSWORD or nothing', (text) => /^([^:\s]+:\S+)?$/.test(text)),
  },
  TACIT_SWAGGER: {
    meaning: 'Whether the public origin serves /swagger; the operator listener always does.',
    fallback: 'off',
    read: oneOf({ on: true, off: false }),
  },
  SOLANA_RPC_URL: {
    meaning:
      '`embedded`, or JSON-RPC endpoints of different hosts, separated by commas; production names two or more.',
    read: rpcUrls,
  },
  TACIT_RPC_SEND_URLS: {
    meaning:
      'Endpoints that only receive transactions, beside those of `SOLANA_RPC_URL`, separated by commas.',
    fallback: '',
    read: (text) => (text === '' ? [] : (httpUrls(text) ?? expected('URLs separated by commas or nothing'))),
  },
  TACIT_PROGRAM_ID: {
    meaning: 'Vault program, base58. The embedded chain brings its own: leave it empty there.',
    fallback: '',
    read: (text) => (text === '' ? undefined : (decodeBase58(text, 32) ?? expected(KEY_FORM))),
  },
  TACIT_SLOT_MS: {
    meaning: 'Milliseconds per slot of the embedded chain; elsewhere slots are measured.',
    fallback: '400',
    read: integer(EMBEDDED_SLOT_MIN_MS, EMBEDDED_SLOT_MAX_MS),
  },
  TACIT_OPERATOR_KEY: {
    meaning: 'Ed25519 key that signs account records and operator calls, base58.',
    read: publicKey,
  },
  TACIT_AUDITOR_KEY: {
    meaning:
      'age recipient (`age1…`) that exports of batches are encrypted to. Empty: no auditor, no exports.',
    fallback: '',
    read: textIf('an age recipient or nothing', (text) => text === '' || isAgeRecipient(text)),
  },
  TACIT_FEE_KEY: {
    meaning: 'Ed25519 key that owns the fee notes, base58.',
    read: publicKey,
  },
  TACIT_FEE_ANCHOR: {
    meaning: 'Secret from which fee notes derive, 64 hex digits of a field element.',
    read: textIf('64 lowercase hex digits', (text) => /^[0-9a-f]{64}$/.test(text)),
  },
  TACIT_MINTS: { meaning: 'Mints the venue settles in, a JSON array.', read: listOf(Mint) },
  TACIT_INSTRUMENTS: {
    meaning: 'Instruments, a JSON array.',
    read: listOf(InstrumentTerms),
  },
  TACIT_REFERENCE_SOURCES: {
    meaning:
      'Who prices each instrument of `reference_policy` `oracle`, and how old a price may be; a JSON array.',
    fallback: '[]',
    read: listOf(ReferenceSource),
  },
  TACIT_TOKEN_TTL_S: {
    meaning: 'Life of a bearer token in seconds.',
    fallback: '900',
    read: integer(LIMITS.token_ttl_min_s, LIMITS.token_ttl_max_s),
  },
  TACIT_ORDER_LIFE_SLOTS_MAX: {
    meaning: 'Longest life of an order in slots.',
    fallback: String(LIMITS.order_life_slots_max),
    read: integer(1, LIMITS.order_life_setting_slots_max),
  },
  TACIT_SETTLEMENT_PARTS_MAX: {
    meaning: 'Parts one settlement batch carries.',
    fallback: String(LIMITS.settlement_parts_max),
    read: integer(LIMITS.settlement_parts_min, LIMITS.settlement_parts_max),
  },
  TACIT_RETENTION_DAYS: {
    meaning: 'Days events, final orders and fills stay readable.',
    fallback: String(LIMITS.retention_days),
    read: integer(1, LIMITS.retention_setting_days_max),
  },
  TACIT_LEASE_MS: {
    meaning: 'Milliseconds for which a view of the own epoch on chain gives the right to acknowledge.',
    fallback: String(LIMITS.lease_ms),
    read: integer(LIMITS.lease_min_ms, LIMITS.lease_max_ms),
  },
  TACIT_ANCHOR_MAX_MS: {
    meaning:
      'Age of an acknowledged record without a position on chain beyond which nothing is acknowledged.',
    fallback: String(LIMITS.anchor_max_ms),
    read: integer(LIMITS.anchor_max_min_ms, LIMITS.anchor_max_max_ms),
  },
  TACIT_COMMIT_MS: {
    meaning: 'Milliseconds in which the close of a batch lands on chain, otherwise the batch is void.',
    fallback: String(LIMITS.commit_ms),
    read: integer(LIMITS.commit_min_ms, LIMITS.commit_max_ms),
  },
  TACIT_REOPEN_SLOTS: {
    meaning: 'Slots without new orders after the chain stalled.',
    fallback: String(LIMITS.reopen_slots),
    read: integer(1, LIMITS.reopen_slots_max),
  },
  TACIT_ETCD_URLS: {
    meaning:
      'Members of etcd, over which several nodes share one log; separated by commas. Empty: one machine.',
    fallback: '',
    read: etcdUrls,
  },
  TACIT_ETCD_CA: {
    meaning: 'Authority of the members of etcd, base64 DER.',
    fallback: '',
    read: textIf('base64', isBase64),
  },
  TACIT_ETCD_CERT: {
    meaning: 'Certificate that the members of etcd know the nodes by, base64 DER.',
    fallback: '',
    read: textIf('base64', isBase64),
  },
  TACIT_ETCD_KEY: {
    meaning: 'Key of TACIT_ETCD_CERT, PKCS #8 in base64 DER; good for etcd only, which holds ciphertext.',
    fallback: '',
    read: textIf('base64', isBase64),
  },
  TACIT_NODE_URL: {
    meaning:
      "Where the other nodes reach this one's operator listener; `{instance_id}` stands for that of the machine. Empty: no links.",
    fallback: '',
    read: textIf(
      'https://HOST:PORT, or nothing',
      (text) => text === '' || /^https:\/\/[^/@?#\s]+$/.test(text),
    ),
  },
} satisfies Record<VenueSetting, Setting<unknown>>

/** The value of every setting under its name; the types follow from the rows. */
export type Settings = { [N in keyof typeof ROWS]: Exclude<ReturnType<(typeof ROWS)[N]['read']>, Fault> }
export type SettingName = keyof Settings
export const SETTINGS: { readonly [N in SettingName]: Setting<Settings[N]> } = ROWS
export const isSettingName = (name: string): name is SettingName => Object.hasOwn(ROWS, name)
/** In the order of output and of errors. */
export const SETTING_NAMES: readonly SettingName[] = Object.keys(ROWS).filter(isSettingName)

function textIf(form: string, holds: (text: string) => boolean) {
  return (text: string): string | Fault => (holds(text) ? text : expected(form))
}

function isBase64(text: string): boolean {
  return /^[A-Za-z0-9+/]*={0,2}$/.test(text)
}

function etcdUrls(text: string): string[] | Fault {
  if (text === '') return []
  const urls = text.split(',')
  const is_member = (url: string) => /^https:\/\/[^/@?#\s]+$/.test(url) && URL.canParse(url)
  return urls.every(is_member) ? urls : expected('https://HOST:PORT, separated by commas, or nothing')
}

function oneOf<const T>(meanings: Readonly<Record<string, T>>) {
  const words = Object.keys(meanings).join(' or ')
  const values = new Map(Object.entries(meanings))
  return (text: string): T | Fault => values.get(text) ?? expected(words)
}

function integer(min: number, max: number) {
  return (text: string): number | Fault => {
    const value = /^(0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN
    return value >= min && value <= max ? value : expected(`an integer from ${min} to ${max}`)
  }
}

/** Validates entries, which stay text, against their schema; an error names the index and field of the entry. */
function listOf<S extends TSchema>(entry: S) {
  const parse = parserOf(t.Array(entry), 'list')
  return (text: string): Static<S>[] | Fault => {
    try {
      const list: unknown = JSON.parse(text)
      if (!Array.isArray(list)) return expected('a JSON array')
      parse(list)
      return list
    } catch (error) {
      if (error instanceof SyntaxError) return expected('a JSON array')
      if (error instanceof Refusal) return new Fault(`${error.facts.field} (${error.code})`, true)
      throw error
    }
  }
}

/** `127.0.0.1:8443` or `[::]:8443`. */
export function listenAddress(text: string): { hostname: string; port: number } | undefined {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})$/.exec(text)
  if (match === null || Number(match[3]) > 65_535) return undefined
  return { hostname: (match[1] ?? match[2])!, port: Number(match[3]) }
}

function tlsNames(text: string): string[] | Fault {
  if (text === '') return []
  if (/^[A-Za-z0-9.-]+(,[A-Za-z0-9.-]+)*$/.test(text)) return text.split(',')
  return expected('names separated by commas')
}

/** Undefined: the embedded chain. */
function rpcUrls(text: string): string[] | undefined | Fault {
  if (text === 'embedded') return undefined
  const urls = httpUrls(text)
  // One host that counts twice would be a quorum by itself.
  const hosts = new Set(urls?.map((url) => new URL(url).host))
  if (urls === undefined || hosts.size < urls.length)
    return expected('embedded or URLs of different hosts separated by commas')
  return urls
}

function httpUrls(text: string): string[] | undefined {
  const urls = text.split(',')
  return urls.every((url) => hasScheme(url, /^https?:$/)) ? urls : undefined
}

function publicKey(text: string): string | Fault {
  return decodeBase58(text, 32) === undefined ? expected(KEY_FORM) : text
}

function httpsUrl(text: string): string | Fault {
  return text === '' || hasScheme(text, /^https:$/) ? text : expected('an https URL or nothing')
}

function hasScheme(text: string, scheme: RegExp): boolean {
  return URL.canParse(text) && scheme.test(new URL(text).protocol)
}
