/** Every setting the process reads from its environment: name, meaning, form, and what stands in for it if anything may. */
import { decodeBase58 } from '../../protocol/base58'

export type Setting = {
  readonly name: string
  readonly meaning: string
  /** Text used when absent; without it the setting is required. Nothing of security or chain has one. */
  readonly fallback?: string
  /** Never printed. */
  readonly secret?: true
  /** A sentence naming the fault, or undefined. */
  readonly fault: (text: string) => string | undefined
}

const expects = (what: string, holds: (text: string) => boolean) => (text: string) =>
  holds(text) ? undefined : `expected ${what}`
const oneOf = (...words: string[]) => expects(words.join(' or '), (text) => words.includes(text))
const integer = (min: number, max: number) =>
  expects(`an integer from ${min} to ${max}`, (text) => {
    return /^(0|[1-9][0-9]*)$/.test(text) && Number(text) >= min && Number(text) <= max
  })
const base58Key = expects('32 bytes in base58', (text) => decodeBase58(text, 32) !== undefined)
const listen = expects('ADDRESS:PORT', (text) => listenAddress(text) !== undefined)
const json = expects('a JSON array', (text) => {
  try {
    return Array.isArray(JSON.parse(text))
  } catch {
    return false
  }
})

export const SETTINGS: readonly Setting[] = [
  {
    name: 'TACIT_DATA_DIR',
    meaning: 'Folder of the journal, snapshots and read models.',
    fault: expects('a folder', (text) => text !== ''),
  },
  { name: 'TACIT_LISTEN', meaning: 'Address and port of the venue, TLS 1.3.', fault: listen },
  {
    name: 'TACIT_OPERATOR_LISTEN',
    meaning: 'Address and port for the operator; never the port of the venue.',
    fault: listen,
  },
  {
    name: 'TACIT_ENCLAVE',
    meaning: '`dstack` in production; `development` runs on quotes no verifier trusts.',
    fault: oneOf('dstack', 'development'),
  },
  {
    name: 'TACIT_DSTACK_SOCKET',
    meaning: 'Unix socket of the guest agent.',
    fallback: '/var/run/dstack.sock',
    fault: expects('an absolute path', (text) => text.startsWith('/')),
  },
  {
    name: 'TACIT_TLS_NAMES',
    meaning: 'DNS names and IPv4 addresses of the certificate, beside localhost; separated by commas.',
    fallback: '',
    fault: expects('names separated by commas', (text) => /^([A-Za-z0-9.-]+(,[A-Za-z0-9.-]+)*)?$/.test(text)),
  },
  {
    name: 'TACIT_ACME_DIRECTORY',
    meaning:
      'ACME directory of a public certificate for TACIT_TLS_NAMES; naming it agrees to its terms. Empty: self-signed.',
    fallback: '',
    fault: expects('an https URL or nothing', (text) => text === '' || isHttpsUrl(text)),
  },
  {
    name: 'TACIT_ACME_CHALLENGE',
    meaning: 'How the authority sees that the names are ours; tls-alpn-01 needs no DNS credentials.',
    fallback: 'tls-alpn-01',
    fault: oneOf('tls-alpn-01', 'dns-01'),
  },
  {
    name: 'TACIT_ACME_ROOT',
    meaning:
      'Root certificate of a private directory and DNS API, base64 DER. Empty: the public authorities.',
    fallback: '',
    fault: expects('base64', (text) => /^[A-Za-z0-9+/]*={0,2}$/.test(text)),
  },
  {
    name: 'TACIT_ACME_DNS_URL',
    meaning: 'HTTP API that writes challenge records (`/present`, `/cleanup`); for dns-01.',
    fallback: '',
    fault: expects('an https URL or nothing', (text) => text === '' || isHttpsUrl(text)),
  },
  {
    name: 'TACIT_ACME_DNS_NAME',
    meaning:
      'Record the CNAME of `_acme-challenge.NAME` leads to, in a zone of its own. Empty: that name itself.',
    fallback: '',
    fault: expects('a DNS name or nothing', (text) => /^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+)?$/.test(text)),
  },
  {
    name: 'TACIT_ACME_DNS_SECRET',
    meaning: 'USER:PASSWORD of the HTTP API; good for challenge records only.',
    fallback: '',
    secret: true,
    fault: expects('USER:PASSWORD or nothing', (text) => /^([^:\s]+:\S+)?$/.test(text)),
  },
  {
    name: 'TACIT_SWAGGER',
    meaning: 'Whether the public origin serves /swagger; the operator listener always does.',
    fallback: 'off',
    fault: oneOf('on', 'off'),
  },
  {
    name: 'SOLANA_RPC_URL',
    meaning: '`embedded`, or JSON-RPC endpoints separated by commas; production names two providers.',
    fault: expects(
      'embedded or URLs separated by commas',
      (text) => text === 'embedded' || text.split(',').every(isRpcUrl),
    ),
  },
  {
    name: 'TACIT_PROGRAM_ID',
    meaning: 'Vault program, base58. The embedded chain brings its own: leave it empty there.',
    fallback: '',
    fault: (text) => (text === '' ? undefined : base58Key(text)),
  },
  {
    name: 'TACIT_SLOT_MS',
    meaning: 'Milliseconds per slot of the embedded chain; elsewhere slots are measured.',
    fallback: '400',
    fault: integer(20, 10_000),
  },
  {
    name: 'TACIT_OPERATOR_KEY',
    meaning: 'Ed25519 key that signs account records and operator calls, base58.',
    fault: base58Key,
  },
  { name: 'TACIT_FEE_KEY', meaning: 'Ed25519 key that owns the fee notes, base58.', fault: base58Key },
  {
    name: 'TACIT_FEE_ANCHOR',
    meaning: 'Secret from which fee notes derive, 64 hex digits of a field element.',
    secret: true,
    fault: expects('64 lowercase hex digits', (text) => /^[0-9a-f]{64}$/.test(text)),
  },
  { name: 'TACIT_MINTS', meaning: 'Mints the venue settles in, a JSON array.', fault: json },
  { name: 'TACIT_INSTRUMENTS', meaning: 'Instruments, a JSON array.', fault: json },
  {
    name: 'TACIT_REFERENCE_SOURCES',
    meaning:
      'Who prices each instrument of `reference_policy` `oracle`, and how old a price may be; a JSON array.',
    fallback: '[]',
    fault: json,
  },
  {
    name: 'TACIT_TOKEN_TTL_S',
    meaning: 'Life of a bearer token in seconds.',
    fallback: '900',
    fault: integer(60, 86_400),
  },
  {
    name: 'TACIT_ORDER_LIFE_SLOTS_MAX',
    meaning: 'Longest life of an order in slots.',
    fallback: '432000',
    fault: integer(1, 2 ** 32),
  },
  {
    name: 'TACIT_SETTLEMENT_PARTS_MAX',
    meaning: 'Parts one settlement batch carries: 28 in a v1 transaction, 6 in v0.',
    fallback: '28',
    fault: integer(2, 28),
  },
  {
    name: 'TACIT_SETTLEMENT_TRANSACTIONS',
    meaning: '`v1`, or `v0` where the endpoints do not take v1; then at most 6 parts. docs/operator.md.',
    fallback: 'v1',
    fault: oneOf('v1', 'v0'),
  },
  {
    name: 'TACIT_RETENTION_DAYS',
    meaning: 'Days events, final orders and fills stay readable.',
    fallback: '30',
    fault: integer(1, 3_650),
  },
  {
    name: 'TACIT_RESTORE_FROM_CHAIN',
    meaning: '`on` lets an empty folder begin from the chain alone, once the admin has announced it there.',
    fallback: 'off',
    fault: oneOf('on', 'off'),
  },
]

/** `127.0.0.1:8443` or `[::]:8443`. */
export function listenAddress(text: string): { hostname: string; port: number } | undefined {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})$/.exec(text)
  if (match === null || Number(match[3]) > 65_535) return undefined
  return { hostname: (match[1] ?? match[2])!, port: Number(match[3]) }
}

function isHttpsUrl(text: string): boolean {
  return URL.canParse(text) && new URL(text).protocol === 'https:'
}

function isRpcUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
}
