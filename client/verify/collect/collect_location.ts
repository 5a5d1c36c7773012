/** Asks the policy's location authorities about one machine and instance; judges nothing. */
import { fromAnyHex, toHex } from '../../../protocol/bytes'
import { parseQuote } from '../../../protocol/tdx/quote'
import { LOCATION_ANSWER_CHARACTERS_MAX } from '../../limits'
import type { LocationAnswer } from '../evidence_bundle'
import type { LocationAuthority } from '../policy'
import { readPckPlatform } from '../tdx/pck_extension'
import { Refused } from '../transcript'
import { readCertificate } from '../x509/certificate'

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
    const statement = await ask(`${authority.url.replace(/\/$/, '')}/${ppid}/${instance}`, timeout_ms)
    if (statement !== undefined) return [{ authority: authority.name, ...statement }]
    silent.push(authority.name)
    return []
  })
  return { answers: (await Promise.all(asked)).flat(), silent }
}

/** Undefined when there is no answer of the form `{body, signature}`. */
async function ask(
  url: string,
  timeout_ms: number,
): Promise<{ body: string; signature: string } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(timeout_ms), redirect: 'error' })
    const text = response.ok ? await response.text() : ''
    if (text.length > LOCATION_ANSWER_CHARACTERS_MAX) return undefined
    const { body, signature } = JSON.parse(text) as { body?: unknown; signature?: unknown }
    return typeof body === 'string' && typeof signature === 'string' ? { body, signature } : undefined
  } catch {
    return undefined
  }
}
