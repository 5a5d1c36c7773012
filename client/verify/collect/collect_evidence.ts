/** Collects the evidence of one verification from the venue, chain and collateral; a missing part is null. */
import { askBounded } from '../../../protocol/ask_bounded'
import { BINDING_BODY, BINDING_BYTES, type BindingBody } from '../../../protocol/bodies/statements'
import { fromAnyHex, fromHex, toHex, utf8 } from '../../../protocol/bytes'
import { tryDecode } from '../../../protocol/codec'
import { sha256 } from '../../../protocol/sha256'
import { TacitError } from '../../../protocol/tacit_error'
import { type Collateral, readPckPlatform } from '../../../protocol/tdx/collateral'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodeConfig } from '../../../protocol/vault/accounts'
import type { Attestation, Info, Leader } from '../../../protocol/wire/public'
import { readCertificate } from '../../../protocol/x509/certificate'
import type { Transport } from '../../api/venue_client'
import {
  CHAIN_LAG_SLOTS_MAX,
  EVIDENCE_CALL_MS,
  EVIDENCE_FILES_MAX,
  LOCATION_ANSWER_BYTES_MAX,
  QUOTE_BUSY_RETRIES_MAX,
  QUOTE_BUSY_WAIT_MAX_MS,
  VENUE_ANSWER_BYTES_MAX,
} from '../../limits'
import type { ConnectOptions } from '../../verified_venue'
import {
  ATTESTATION_FORM,
  BUNDLE_FORMAT,
  type ChainRecord,
  type EvidenceBundle,
  type Form,
  INFO_FORM,
  type LeaderEvidence,
  type LocationAnswer,
  type LocationStatement,
  readChecksums,
  readForm,
  readStatement,
} from '../evidence_bundle'
import { decodeBase64, parseJson } from '../json_document'
import { type ChainPolicy, type LocationAuthority, requireParsed, type VerificationPolicy } from '../policy'
import { Refused, reasonOf } from '../transcript'
import { collectChain, collectKms, collectKmsContract } from './collect_chain'
import { collectCollateral, INTEL_PCS } from './collect_collateral'

/**
 * @param spki_sha256 of the connection's TLS key, hex; null where the platform hides it
 * @throws EvidenceUnavailable when the venue itself does not answer; Refused for a policy that `parsePolicy` did not make
 */
export async function collectEvidence(
  transport: AskingTransport,
  spki_sha256: string | null,
  policy: VerificationPolicy,
  options: ConnectOptions,
): Promise<EvidenceBundle> {
  requireParsed(policy)
  const timeout_ms = options.timeout_ms ?? EVIDENCE_CALL_MS
  const nonce = newNonce()
  const venue = await collectVenue(transport, nonce, timeout_ms)
  const shared: EvidenceBundle['missing'] = {}
  const leading = venue.info.epoch === 0 ? await collectLeading(transport, timeout_ms) : null
  // After the answers: an epoch that a node states is on the chain by then.
  const [own, of_leader, chain] = await Promise.all([
    collectWitnesses(venue, policy, options),
    leading && collectWitnesses(leading, policy, options),
    policy.chain && orNull(shared, 'chain', chainBehind(leading ?? venue, policy.chain, timeout_ms)),
  ])
  return {
    format: BUNDLE_FORMAT,
    url: transport.base_url,
    now_ms: Math.floor((options.unixMs ?? Date.now)()),
    nonce,
    spki_sha256,
    ...venue,
    ...own,
    missing: { ...own.missing, ...shared },
    chain: chain ?? null,
    leader: leading && { ...leading, ...of_leader! },
  }
}

const newNonce = (): string => toHex(crypto.getRandomValues(new Uint8Array(32)))

/** Under a fresh nonce, so that no node can pass on the answer of another. */
async function collectLeading(
  transport: AskingTransport,
  timeout_ms: number,
): Promise<Pick<LeaderEvidence, 'nonce' | 'info' | 'attestation'>> {
  const nonce = newNonce()
  return { nonce, ...(await collectLeader(transport, nonce, timeout_ms)) }
}

/** Where the policy's nodes show an earlier epoch than the venue states, they may be behind it: they are read again at its slot. */
async function chainBehind(
  { info, attestation }: Pick<EvidenceBundle, 'info' | 'attestation'>,
  policy: ChainPolicy,
  timeout_ms: number,
): Promise<ChainRecord> {
  const first = await collectChain(policy, timeout_ms)
  const config = decodeConfig(decodeBase64(first.config.data))
  const lag = Number(boundIn(attestation)?.slot ?? 0n) - first.slot
  const is_behind = config !== undefined && config.epoch < info.epoch && lag > 0 && lag <= CHAIN_LAG_SLOTS_MAX
  return is_behind ? collectChain(policy, timeout_ms, first.slot + lag) : first
}

/** A missing part fails its own check; the others are still judged. */
const orNull = <T>(
  missing: EvidenceBundle['missing'],
  name: keyof EvidenceBundle['missing'],
  collected: Promise<T>,
): Promise<T | null> =>
  collected.catch((error: unknown) => {
    missing[name] = reasonOf(error)
    return null
  })

/** Statements of others about one node. */
async function collectWitnesses(
  { info, attestation }: Pick<EvidenceBundle, 'info' | 'attestation'>,
  policy: VerificationPolicy,
  options: ConnectOptions,
): Promise<Omit<LeaderEvidence, 'nonce' | 'info' | 'attestation'>> {
  const timeout_ms = options.timeout_ms ?? EVIDENCE_CALL_MS
  const { app_id, compose_hash, instance_id } = info
  const { quote } = attestation
  const missing: EvidenceBundle['missing'] = {}
  const { kms, location } = policy
  const locate = async () => {
    if (location === undefined) return null
    const found = await collectLocation(location.authorities, quote, instance_id, timeout_ms)
    if (found.silent.length > 0) missing.location = 'it did not answer'
    return found.answers
  }
  const [collateral, kms_allowed, kms_contract, answers] = await Promise.all([
    options.collateral ?? orNull(missing, 'collateral', collateralFor(quote, policy, timeout_ms)),
    kms === undefined ? null : orNull(missing, 'kms', collectKms(kms, app_id, compose_hash, timeout_ms)),
    kms?.owners === undefined
      ? null
      : orNull(missing, 'kms_owner', collectKmsContract(kms, app_id, timeout_ms)),
    orNull(missing, 'location', locate()),
  ])
  const texts = [options.app_compose ?? []].flat()
  // The check hashes it again: a text that is none of them fails it.
  const app_compose = texts.find((text) => toHex(sha256(utf8(text))) === compose_hash) ?? texts[0] ?? null
  return { collateral, app_compose, kms_allowed, kms_contract, location: answers ?? [], missing }
}

async function collateralFor(
  text: string,
  policy: VerificationPolicy,
  timeout_ms: number,
): Promise<Collateral> {
  const quote = fromAnyHex(text)
  if (quote === undefined) throw new Refused('the quote is not hex')
  return collectCollateral(policy.collateral_url ?? INTEL_PCS, quote, timeout_ms)
}

/** @param quote hex @param instance_id 40 hex digits or empty. @throws Refused, MalformedQuote when the quote names no machine */
export async function collectLocation(
  authorities: readonly LocationAuthority[],
  quote: string,
  instance_id: string,
  timeout_ms: number,
): Promise<{ answers: LocationAnswer[]; silent: string[] }> {
  const [pck] = parseQuote(fromAnyHex(quote) ?? new Uint8Array()).pck_chain
  if (pck === undefined) throw new Refused('the quote names no machine')
  const ppid = toHex(readPckPlatform(readCertificate(pck)).ppid)
  const instance = instance_id === '' ? '0'.repeat(40) : instance_id
  const silent: string[] = []
  const asked = authorities.map(async (authority): Promise<LocationAnswer[]> => {
    if ('ppids' in authority) return []
    const from = 'log' in authority ? `/${authority.log.size}` : ''
    const url = `${authority.url.replace(/\/$/, '')}/${ppid}/${instance}${from}`
    const statement = await ask(url, timeout_ms)
    if (statement !== undefined) return [{ authority: authority.name, ...statement }]
    silent.push(authority.name)
    return []
  })
  return { answers: (await Promise.all(asked)).flat(), silent }
}

/** Undefined when there is no answer of the form. */
async function ask(url: string, timeout_ms: number): Promise<LocationStatement | undefined> {
  try {
    const { ok, bytes } = await askBounded((init) => fetch(url, init), LOCATION_ANSWER_BYTES_MAX, timeout_ms)
    return ok ? readStatement(parseJson(new TextDecoder().decode(bytes))) : undefined
  } catch {
    return undefined
  }
}

/** The part of a transport that collecting evidence needs. */
export type AskingTransport = Pick<Transport, 'base_url' | 'fetch'>

/** Plain `fetch`, as in a browser: it neither shows nor pins the TLS key. No cookies, redirects or cache. */
export function fetchTransport(origin: URL): AskingTransport {
  return {
    base_url: origin.origin,
    fetch: (path, init) =>
      fetch(origin.origin + path, {
        ...init,
        mode: 'cors',
        credentials: 'omit',
        redirect: 'error',
        cache: 'no-store',
        referrerPolicy: 'no-referrer',
      }),
  }
}

/** The venue did not serve its evidence, so there is no verdict. */
export class EvidenceUnavailable extends TacitError {
  override readonly name = 'EvidenceUnavailable'
  readonly code = 'evidence_unavailable'
  constructor(finding: string, options?: ErrorOptions) {
    super(finding, {}, options)
  }
}

type VenueEvidence = Pick<EvidenceBundle, 'info' | 'attestation' | 'evidences'>

/** The data that a node's statement key signed; undefined if it is malformed, which a check rejects. */
function boundIn({ binding }: Pick<Attestation, 'binding'>): BindingBody | undefined {
  const body = fromHex(binding.body, BINDING_BYTES)
  return body && tryDecode(() => BINDING_BODY.decode(body))
}

/**
 * A node that begins to lead between two answers is asked once more.
 * @param nonce 64 hex digits. @throws EvidenceUnavailable
 */
export async function collectVenue(
  transport: AskingTransport,
  nonce: string,
  timeout_ms: number,
): Promise<VenueEvidence> {
  const first = await collectOnce(transport, nonce, timeout_ms)
  const { epoch } = boundIn(first.attestation) ?? {}
  const is_mixed = epoch !== undefined && epoch !== BigInt(first.info.epoch)
  return is_mixed ? collectOnce(transport, nonce, timeout_ms) : first
}

async function collectOnce(
  transport: AskingTransport,
  nonce: string,
  timeout_ms: number,
): Promise<VenueEvidence> {
  const get = (path: string) => getText(transport, path, timeout_ms)
  const [info, attestation, quote_json, cert_pem, sha256sum_txt] = await Promise.all([
    get('/info'),
    get(`/attestation?nonce=${nonce}`),
    get('/evidences/quote.json'),
    get('/evidences/cert.pem'),
    get('/evidences/sha256sum.txt'),
  ])
  return {
    info: parse(info, INFO_FORM) as Info,
    attestation: parse(attestation, ATTESTATION_FORM) as Attestation,
    evidences: { quote_json, cert_pem, sha256sum_txt, more: await getListed(get, sha256sum_txt) },
  }
}

/** The leading node's evidence through a node that follows it. @param nonce 64 hex digits. @throws EvidenceUnavailable */
export async function collectLeader(
  transport: AskingTransport,
  nonce: string,
  timeout_ms: number,
): Promise<Pick<EvidenceBundle, 'info' | 'attestation'>> {
  const answer = await getText(transport, `/attestation/leader?nonce=${nonce}`, timeout_ms)
  return parse(answer, { info: INFO_FORM, attestation: ATTESTATION_FORM }) as Leader
}

/** The listed files besides `cert.pem`. A missing file fails its check, as a malformed list does. */
async function getListed(
  get: (path: string) => Promise<string>,
  sha256sum_txt: string,
): Promise<Record<string, string>> {
  let names: string[]
  try {
    names = [...readChecksums(sha256sum_txt).keys()].filter((name) => name !== 'cert.pem')
  } catch {
    return {}
  }
  const files = names.slice(0, EVIDENCE_FILES_MAX).map(async (name): Promise<[string, string][]> => {
    const text = await get(`/evidences/${name}`).catch(() => undefined)
    return text === undefined ? [] : [[name, text]]
  })
  return Object.fromEntries((await Promise.all(files)).flat())
}

async function getText(transport: AskingTransport, path: string, timeout_ms: number): Promise<string> {
  for (let attempt = 0; ; attempt++) {
    const ask = (init: RequestInit) => transport.fetch(path, init)
    const answer = await askBounded(ask, VENUE_ANSWER_BYTES_MAX, timeout_ms).catch((error: Error) => {
      throw new EvidenceUnavailable(`${path} ${error.message}`, { cause: error })
    })
    if (answer.ok) return new TextDecoder().decode(answer.bytes)
    if (answer.status !== 429 || attempt === QUOTE_BUSY_RETRIES_MAX)
      throw new EvidenceUnavailable(`${path} answered ${answer.status}`)
    const wait_ms = Number(answer.headers.get('retry-after') ?? 1) * 1000
    await new Promise((done) => setTimeout(done, Math.min(wait_ms || 1000, QUOTE_BUSY_WAIT_MAX_MS)))
  }
}

function parse(answer: string, form: Form): unknown {
  try {
    return readForm(parseJson(answer), form)
  } catch (error) {
    throw new EvidenceUnavailable('the venue answered in another form', { cause: error })
  }
}
