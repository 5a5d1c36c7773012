/** Reads identity, attestation and evidence files of a venue; judges only their form. */
import type { Attestation, Info } from '../../../protocol/wire/public'
import type { Transport } from '../../api/venue_client'
import {
  EVIDENCE_FILES_MAX,
  QUOTE_BUSY_RETRIES_MAX,
  QUOTE_BUSY_WAIT_MAX_MS,
  VENUE_ANSWER_CHARACTERS_MAX,
} from '../../limits'
import {
  ATTESTATION_FORM,
  type EvidenceBundle,
  type Form,
  INFO_FORM,
  readChecksums,
  requireForm,
} from '../evidence_bundle'

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
export class EvidenceUnavailable extends Error {
  override readonly name = 'EvidenceUnavailable'
}

export type VenueEvidence = Pick<EvidenceBundle, 'info' | 'attestation' | 'evidences'>

/** @param nonce 64 hex digits. @throws EvidenceUnavailable */
export async function collectVenue(
  transport: AskingTransport,
  nonce: string,
  timeout_ms: number,
): Promise<VenueEvidence> {
  const get = (path: string) => getText(transport, path, timeout_ms)
  const [info, attestation, quote_json, cert_pem, sha256sum_txt] = await Promise.all([
    get('/info'),
    get(`/attestation?reportData=${nonce}`),
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
    const signal = AbortSignal.timeout(timeout_ms)
    const response = await transport.fetch(path, { signal }).catch((error: unknown) => {
      throw new EvidenceUnavailable(`${path} did not answer`, { cause: error })
    })
    if (response.ok) return boundedText(response, path)
    if (response.status !== 429 || attempt === QUOTE_BUSY_RETRIES_MAX)
      throw new EvidenceUnavailable(`${path} answered ${response.status}`)
    const wait_ms = Number(response.headers.get('retry-after') ?? 1) * 1000
    await new Promise((done) => setTimeout(done, Math.min(wait_ms || 1000, QUOTE_BUSY_WAIT_MAX_MS)))
  }
}

async function boundedText(response: Response, path: string): Promise<string> {
  const text = await response.text()
  if (text.length > VENUE_ANSWER_CHARACTERS_MAX) throw new EvidenceUnavailable(`${path} answered too much`)
  return text
}

function parse(answer: string, form: Form): unknown {
  let value: unknown
  try {
    value = JSON.parse(answer)
  } catch {
    throw new EvidenceUnavailable('the venue answered no JSON')
  }
  try {
    requireForm(value, form)
  } catch (error) {
    throw new EvidenceUnavailable('the venue answered in another form', { cause: error })
  }
  return value
}
