/** Describes the evidence of one verification and parses it from a file, to be judged again without the venue. */
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { NONCE_PATH_MAX } from '../../protocol/limits'
import type { Collateral } from '../../protocol/tdx/collateral'
import type { Attestation, Info } from '../../protocol/wire/public'
import { parseJson } from './json_document'
import { readCollateralValue } from './tdx/collateral'
import { Refused } from './transcript'

export type Form = { readonly [field: string]: Rule | Form }
/** True for a text, number, boolean, null or undefined that is well formed: a deep value passes no rule. */
type Rule = (value: unknown) => boolean

const text: Rule = (value) => typeof value === 'string'
const count: Rule = (value) => Number.isSafeInteger(value) && (value as number) >= 0
const hex =
  (width: number): Rule =>
  (value) =>
    typeof value === 'string' && fromHex(value, width) !== undefined
const base58: Rule = (value) => typeof value === 'string' && decodeBase58(value, 32) !== undefined
const optional =
  (rule: Rule): Rule =>
  (value) =>
    value === undefined || rule(value)
const nullable =
  (rule: Rule): Rule =>
  (value) =>
    value === null || rule(value)

/** Its length bounds the work of the check. */
const isPath: Rule = (value) =>
  Array.isArray(value) && value.length <= NONCE_PATH_MAX && Array.from(value).every(hex(32))

/**
 * The fields of the form alone: others may be deeper than a file of them can be written.
 * @throws Refused naming the first field that is absent or breaks its rule
 */
export function readForm(value: unknown, form: Form): unknown {
  if (typeof value !== 'object' || value === null) throw new Refused('an answer is not an object')
  const fields = Object.entries(form).flatMap(([field, expected]): [string, unknown][] => {
    const member = Object.hasOwn(value, field) ? Reflect.get(value, field) : undefined
    if (typeof expected === 'object') return [[field, readForm(member, expected)]]
    if (!expected(member)) throw new Refused(`an answer has no well formed ${field}`)
    return member === undefined ? [] : [[field, member]]
  })
  return Object.fromEntries(fields)
}

/** The fields of `/info` that verification reads: ids become parts of requests to others, so no other text is one. */
export const INFO_FORM: Form = {
  app_id: hex(20),
  instance_id: (value) => value === '' || hex(20)(value),
  compose_hash: hex(32),
  tee_pubkey: base58,
  tacit_version: optional(text),
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
  nonce_path: optional(isPath),
  vm_config: text,
  tee_pubkey: text,
  // Older venues do not state it.
  enclave: optional(text),
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
  /** Data of every record of an announcement, base64. */
  announced: string[]
}

/** Proof that a log has a statement and extends the head that the policy pins: hex; paths are nodes in a row. */
export type LogProof = { head: string; signature: string; index: number; path: string; consistency: string }
/** Hex. */
export type LocationStatement = { body: string; signature: string; log?: LogProof }
export type LocationAnswer = LocationStatement & { authority: string }

/**
 * The leading node's evidence through a node that follows it, under a fresh nonce. It has no connection and no files: those are
 * of the node that serves.
 */
export type LeaderEvidence = Pick<
  EvidenceBundle,
  | 'nonce'
  | 'info'
  | 'attestation'
  | 'collateral'
  | 'app_compose'
  | 'kms_allowed'
  | 'kms_contract'
  | 'location'
  | 'missing'
>

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
  /** The files under `/evidences/`, exact text; `more` has the listed ones besides `cert.pem`, by name. */
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
  /** Present for a node that follows, whose epoch is 0, and null for any other. */
  leader: LeaderEvidence | null
}

/** Identity and attestation of the node whose settlement key the vault has: that signs receipts. */
export const leadingOf = <T extends Pick<EvidenceBundle, 'info' | 'attestation'>>(
  shown: T & { leader?: T | null },
): T => shown.leader ?? shown

/** The part of a bundle that describes the machine, without a venue on it or a connection to it. */
export type MachineEvidence = Pick<
  EvidenceBundle,
  'now_ms' | 'nonce' | 'collateral' | 'app_compose' | 'missing'
> & {
  info: Pick<Info, 'app_id' | 'instance_id' | 'compose_hash' | 'tee_pubkey'>
  attestation: Omit<Attestation, 'binding'>
}

/** The last millisecond that a date can express (ECMAScript, "Time Values and Time Range"). */
const DATE_MS_MAX = 8.64e15
const NODE_FORM: Form = {
  nonce: text,
  info: INFO_FORM,
  attestation: ATTESTATION_FORM,
  app_compose: nullable(text),
  kms_allowed: nullable((value) => typeof value === 'boolean'),
  missing: {
    collateral: optional(text),
    chain: optional(text),
    kms: optional(text),
    kms_owner: optional(text),
    location: optional(text),
  },
}
const FORM: Form = {
  format: (value) => value === BUNDLE_FORMAT,
  url: text,
  now_ms: (value) => count(value) && (value as number) <= DATE_MS_MAX,
  spki_sha256: nullable(text),
  ...NODE_FORM,
}
const EVIDENCES_FORM: Form = { quote_json: text, cert_pem: text, sha256sum_txt: text }
const CHAIN_FORM: Form = {
  genesis_hash: text,
  slot: count,
  config: { owner: text, data: text },
  program: { owner: text, data: text },
  program_data: { owner: text, sha256: text, upgrade_authority: nullable(text) },
}
const KMS_FORM: Form = { owner: text, min_delay_s: nullable(count) }
const STATEMENT_FORM: Form = { body: text, signature: text }
const LOG_FORM: Form = { head: text, signature: text, index: count, path: text, consistency: text }

/** Parses the form only; the checks judge the content. @throws Refused for any other text */
export function parseBundle(file: string): EvidenceBundle {
  return readBundle(parseJson(file))
}

const isBundle = (value: unknown): boolean =>
  value instanceof Object && Object.hasOwn(value, 'format') && Reflect.get(value, 'format') === BUNDLE_FORMAT

/** The same from a value, without fields that no bundle has. Bundles of older clients lack fields with a default here. */
export function readBundle(value: unknown): EvidenceBundle {
  if (!isBundle(value)) throw new Refused("this is not a bundle of 'verify --bundle'")
  const bundle = readForm(value, FORM) as EvidenceBundle
  const { evidences, chain, leader = null } = value as EvidenceBundle
  if (leader !== null && bundle.info.epoch !== 0) throw new Refused('a node that leads shows another one')
  return {
    ...bundle,
    ...readNode(value),
    evidences: readEvidences(evidences),
    chain: chain === null ? null : readChain(chain),
    leader: leader === null ? null : readNode(leader),
  }
}

function readNode(value: unknown): LeaderEvidence {
  const node = readForm(value, NODE_FORM) as LeaderEvidence
  const { collateral, kms_contract = null, location = [] } = value as LeaderEvidence
  if (!Array.isArray(location)) throw new Refused('a field of the bundle is malformed')
  return {
    ...node,
    collateral: collateral === null ? null : readCollateralValue(collateral),
    kms_contract: kms_contract === null ? null : (readForm(kms_contract, KMS_FORM) as typeof kms_contract),
    location: Array.from(location, readLocationAnswer),
  }
}

function readChain(value: unknown): ChainRecord {
  const chain = readForm(value, CHAIN_FORM) as ChainRecord
  const { announced = [] } = value as Partial<ChainRecord>
  if (!Array.isArray(announced) || !announced.every(text))
    throw new Refused('a field of the bundle is malformed')
  return { ...chain, announced: Array.from(announced) }
}

function readEvidences(value: unknown): EvidenceBundle['evidences'] {
  const files = readForm(value, EVIDENCES_FORM) as EvidenceBundle['evidences']
  const { more = {} } = value as Partial<typeof files>
  const names = Object.keys(Object(more)).map((name): [string, Rule] => [name, text])
  return { ...files, more: readForm(more, Object.fromEntries(names)) as typeof more }
}

const readLocationAnswer = (value: unknown): LocationAnswer => {
  const { authority } = readForm(value, { authority: text }) as LocationAnswer
  return { authority, ...readStatement(value) }
}

/** An authority's answer, which has a proof only where its authority keeps a log. @throws Refused */
export function readStatement(value: unknown): LocationStatement {
  const has_log = typeof value === 'object' && value !== null && 'log' in value
  return readForm(value, has_log ? { ...STATEMENT_FORM, log: LOG_FORM } : STATEMENT_FORM) as LocationStatement
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
