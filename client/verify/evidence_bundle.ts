/** Describes the evidence of one verification and parses it from a file, to be judged again without the venue. */
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import type { Collateral } from '../../protocol/tdx/collateral'
import type { Attestation, Info } from '../../protocol/wire/public'
import { parseJson } from './json_document'
import { Refused } from './transcript'

/** A rule for each field. */
export type Form = { readonly [field: string]: Rule | Form }
type Rule = (value: unknown) => boolean

const text: Rule = (value) => typeof value === 'string'
const count: Rule = (value) => Number.isSafeInteger(value) && (value as number) >= 0
const hex =
  (width: number): Rule =>
  (value) =>
    typeof value === 'string' && fromHex(value, width) !== undefined
const base58: Rule = (value) => typeof value === 'string' && decodeBase58(value, 32) !== undefined

/** Further fields are ignored. @throws Refused naming the first field that is absent or breaks its rule. */
export function requireForm(value: unknown, form: Form): void {
  if (typeof value !== 'object' || value === null) throw new Refused('an answer is not an object')
  for (const [field, expected] of Object.entries(form)) {
    const member = (value as Record<string, unknown>)[field]
    if (typeof expected === 'object') requireForm(member, expected)
    else if (!expected(member)) throw new Refused(`an answer has no well formed ${field}`)
  }
}

/** The fields of `/info` that verification reads: ids become parts of requests to others, so no other text is one. */
export const INFO_FORM: Form = {
  app_id: hex(20),
  instance_id: (value) => value === '' || hex(20)(value),
  compose_hash: hex(32),
  tee_pubkey: base58,
  venue: hex(32),
  config_account: base58,
  program_id: base58,
  genesis_hash: base58,
  generation: count,
  epoch: count,
  exit_delay_s: count,
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

/** Proof that a log has a statement and extends the head that the policy pins: hex; paths are nodes in a row. */
export type LogProof = { head: string; signature: string; index: number; path: string; consistency: string }
/** Hex. */
export type LocationStatement = { body: string; signature: string; log?: LogProof }
export type LocationAnswer = LocationStatement & { authority: string }

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
const CHAIN_FORM: Form = {
  genesis_hash: text,
  slot: count,
  config: { owner: text, data: text },
  program: { owner: text, data: text },
  program_data: { owner: text, sha256: text },
}
/** Parses the form only; the checks judge the content. @throws Refused for any other text */
export function parseBundle(file: string): EvidenceBundle {
  const bundle = withDefaults(parseJson(file)) as EvidenceBundle
  requireForm(bundle, {
    format: text,
    url: text,
    now_ms: (value) => count(value) && (value as number) <= DATE_MS_MAX,
    nonce: text,
    info: INFO_FORM,
    attestation: ATTESTATION_FORM,
    missing: {},
    evidences: { quote_json: text, cert_pem: text, sha256sum_txt: text, more: {} },
  })
  if (bundle.format !== BUNDLE_FORMAT) throw new Refused('the bundle is of another format')
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
  requireForm(evidences.more, Object.fromEntries(Object.keys(evidences.more).map((name) => [name, text])))
  if (kms_contract !== null)
    requireForm(kms_contract, { owner: text, min_delay_s: (value) => value === null || count(value) })
  if (!Array.isArray(location)) throw new Refused('a field of the bundle is malformed')
  for (const answer of location) requireForm(answer, { authority: text, ...statementForm(answer) })
}

const LOG_FORM: Form = { head: text, signature: text, index: count, path: text, consistency: text }

/** The form of an authority's answer, which has a proof only where its authority keeps a log. */
export function statementForm(answer: unknown): Form {
  const has_log = typeof answer === 'object' && answer !== null && 'log' in answer
  return { body: text, signature: text, ...(has_log ? { log: LOG_FORM } : {}) }
}

/** Hashes by file name. @throws Refused for a line in another form than sha256sum's or a repeated name */
export function readChecksums(file: string): Map<string, string> {
  const listed = new Map<string, string>()
  for (const line of file.split('\n').slice(0, -1)) {
    const [, hash, name] = /^([0-9a-f]{64}) {2}([A-Za-z0-9][A-Za-z0-9._-]*)$/.exec(line) ?? []
    if (hash === undefined || name === undefined || listed.has(name))
      throw new Refused('sha256sum.txt is malformed')
    listed.set(name, hash)
  }
  if (!file.endsWith('\n')) throw new Refused('sha256sum.txt is cut short')
  return listed
}
