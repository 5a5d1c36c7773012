/** Describes the evidence of one verification and parses it from a file, to be judged again without the venue. */
import type { Collateral } from '../../protocol/tdx/collateral'
import type { Attestation, Info } from '../../protocol/wire/public'
import { readCollateralValue } from './tdx/collateral_form'
import { Refused } from './transcript'

/** Field to type; numbers are safe integers. */
export type Form = { readonly [field: string]: 'string' | 'number' | Form }

/** Further fields are ignored. @throws Refused naming the first field that is absent or of another type. */
export function requireForm(value: unknown, form: Form): void {
  if (typeof value !== 'object' || value === null) throw new Refused('an answer is not an object')
  for (const [field, expected] of Object.entries(form)) {
    const member = (value as Record<string, unknown>)[field]
    if (typeof expected === 'object') requireForm(member, expected)
    else if (typeof member !== expected || (expected === 'number' && !Number.isSafeInteger(member)))
      throw new Refused(`an answer has no well formed ${field}`)
  }
}

const text = 'string'

/** The fields of `/info` that verification reads. */
export const INFO_FORM: Form = {
  app_id: text,
  instance_id: text,
  compose_hash: text,
  tee_pubkey: text,
  venue: text,
  config_account: text,
  program_id: text,
  genesis_hash: text,
  generation: 'number',
  epoch: 'number',
  exit_delay_s: 'number',
}

/** The fields of `/attestation` that verification reads. */
export const ATTESTATION_FORM: Form = {
  quote: text,
  event_log: text,
  report_data: text,
  vm_config: text,
  tee_pubkey: text,
  binding: {
    body: text,
    signature: text,
    certificate: text,
    certificate_signature: text,
    statement_key: text,
  },
}

export const BUNDLE_FORMAT = 'tacit/evidence-bundle/v1'

/** Accounts of the vault as one JSON-RPC endpoint returned them; base64 data. */
export type ChainRecord = {
  genesis_hash: string
  slot: number
  config: { owner: string; data: string }
  program: { owner: string; data: string }
  /** SHA-256 of the ELF as far as `program_bytes` of the policy, or all of it. */
  program_data: { owner: string; sha256: string; upgrade_authority: string | null }
}

export type LocationAnswer = { authority: string; body: string; signature: string }

/** Everything that one verification rests on. */
export type EvidenceBundle = {
  format: typeof BUNDLE_FORMAT
  url: string
  /** Time of collection, unix milliseconds; validity periods are judged at this time. */
  now_ms: number
  /** 64 hex digits. */
  nonce: string
  /** SHA-256 of the connection's TLS key, 64 hex digits; null where the platform hides it (a browser). */
  spki_sha256: string | null
  info: Info
  attestation: Attestation
  /** The files under `/evidences/`, exact text; `more` has the listed ones beside `cert.pem`, by name. */
  evidences: { quote_json: string; cert_pem: string; sha256sum_txt: string; more: Record<string, string> }
  collateral: Collateral | null
  /** Exact text of the manifest. */
  app_compose: string | null
  chain: ChainRecord | null
  /** Answer of the KMS contract for the measured compose hash; null when there is none. */
  kms_allowed: boolean | null
  /** Owner of that contract, `0x` and 40 hex digits, and the delay of the owner when it was asked and is a timelock. */
  kms_contract: { owner: string; min_delay_s: number | null } | null
  /** Answers of the policy's location authorities, hex; an authority that did not answer is absent. */
  location: LocationAnswer[]
  /** Reasons why a requested answer is null or absent. */
  missing: { collateral?: string; chain?: string; kms?: string; kms_owner?: string; location?: string }
}

/** The part of a bundle that states what the machine is, without a venue on it or a connection to it. */
export type MachineEvidence = Pick<
  EvidenceBundle,
  'now_ms' | 'nonce' | 'collateral' | 'app_compose' | 'missing'
> & {
  info: Pick<Info, 'app_id' | 'instance_id' | 'compose_hash' | 'tee_pubkey'>
  attestation: Omit<Attestation, 'binding'>
}

/** The last millisecond that a date can express (ECMAScript, "Time Values and Time Range"). */
const DATE_MS_MAX = 8.64e15
const CHAIN_FORM = {
  genesis_hash: 'string',
  slot: 'number',
  config: { owner: 'string', data: 'string' },
  program: { owner: 'string', data: 'string' },
  program_data: { owner: 'string', sha256: 'string' },
} as const
/** Parses the form only; the checks judge the content. @throws Refused for any other text */
export function parseBundle(text: string): EvidenceBundle {
  const bundle = withDefaults(parseJson(text)) as EvidenceBundle
  requireForm(bundle, {
    format: 'string',
    url: 'string',
    now_ms: 'number',
    nonce: 'string',
    info: INFO_FORM,
    attestation: ATTESTATION_FORM,
    missing: {},
    evidences: { quote_json: 'string', cert_pem: 'string', sha256sum_txt: 'string', more: {} },
  })
  if (bundle.format !== BUNDLE_FORMAT) throw new Refused('the bundle is of another format')
  if (!(bundle.now_ms >= 0 && bundle.now_ms <= DATE_MS_MAX)) throw new Refused('now_ms is no date')
  if (bundle.collateral !== null) readCollateralValue(bundle.collateral)
  if (bundle.chain !== null) requireForm(bundle.chain, CHAIN_FORM)
  const { enclave } = bundle.attestation as { enclave?: unknown }
  if (enclave !== undefined && typeof enclave !== 'string')
    throw new Refused('an answer has no well formed enclave')
  const authority: unknown = bundle.chain?.program_data.upgrade_authority ?? null
  const loose: unknown[] = [bundle.spki_sha256, bundle.app_compose, authority]
  if (loose.some((value) => value !== null && typeof value !== 'string'))
    throw new Refused('a field of the bundle is malformed')
  requireAnswers(bundle)
  return bundle
}

/** Bundles of older clients lack these fields; checks that need them then fail or are skipped. */
function withDefaults(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const { evidences, ...rest } = value as { evidences?: unknown }
  const files = typeof evidences === 'object' && evidences !== null ? { more: {}, ...evidences } : evidences
  return { kms_contract: null, location: [], ...rest, evidences: files }
}

function requireAnswers({ evidences, kms_contract, location }: EvidenceBundle): void {
  requireForm(evidences.more, Object.fromEntries(Object.keys(evidences.more).map((name) => [name, 'string'])))
  if (kms_contract !== null) {
    requireForm(kms_contract, { owner: 'string' })
    if (kms_contract.min_delay_s !== null) requireForm(kms_contract, { min_delay_s: 'number' })
  }
  if (!Array.isArray(location)) throw new Refused('a field of the bundle is malformed')
  for (const answer of location)
    requireForm(answer, { authority: 'string', body: 'string', signature: 'string' })
}

/** Hashes by file name. @throws Refused for a line in another form than sha256sum's or a repeated name */
export function readChecksums(text: string): Map<string, string> {
  const listed = new Map<string, string>()
  for (const line of text.split('\n').slice(0, -1)) {
    const [, hash, name] = /^([0-9a-f]{64}) {2}([A-Za-z0-9][A-Za-z0-9._-]*)$/.exec(line) ?? []
    if (hash === undefined || name === undefined || listed.has(name))
      throw new Refused('sha256sum.txt is malformed')
    listed.set(name, hash)
  }
  if (!text.endsWith('\n')) throw new Refused('sha256sum.txt is cut short')
  return listed
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused('the bundle is not JSON')
  }
}
