/** Reads identity, attestation and evidence files of a venue; judges only their form. */

import { askBounded } from '../../../protocol/ask_bounded'
import { BINDING_BODY, BINDING_BYTES, type BindingBody } from '../../../protocol/bodies/statements'
import { fromHex } from '../../../protocol/bytes'
import { tryDecode } from '../../../protocol/codec'
import { TacitError } from '../../../protocol/tacit_error'
import type { Attestation, Info, Leader } from '../../../protocol/wire/public'
import type { Transport } from '../../api/venue_client'
import {
  EVIDENCE_FILES_MAX,
  QUOTE_BUSY_RETRIES_MAX,
  QUOTE_BUSY_WAIT_MAX_MS,
  VENUE_ANSWER_BYTES_MAX,
} from '../../limits'
import {
  ATTESTATION_FORM,
  type EvidenceBundle,
  type Form,
  INFO_FORM,
  readChecksums,
  readForm,
} from '../evidence_bundle'
import { parseJson } from '../json_document'

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

export type VenueEvidence = Pick<EvidenceBundle, 'info' | 'attestation' | 'evidences'>

/** What a node's statement key signed; undefined where it is malformed, which a check rejects. */
export function boundIn({ binding }: Pick<Attestation, 'binding'>): BindingBody | undefined {
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

/** What the leading node shows through one that follows it. @param nonce 64 hex digits. @throws EvidenceUnavailable */
export async function collectLeader(
  transport: AskingTransport,
  nonce: string,
  timeout_ms: number,
): Promise<Pick<EvidenceBundle, 'info' | 'attestation'>> {
  const answer = await getText(transport, `/attestation/leader?nonce=${nonce}`, timeout_ms)
  return parse(answer, { info: INFO_FORM, attestation: ATTESTATION_FORM }) as Leader
}

/** The listed files beside `cert.pem`. One that cannot be had is absent and fails its check, as a malformed list does. */
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
