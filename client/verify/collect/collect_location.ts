/** Asks the policy's location authorities about one machine and instance; judges nothing. */
import { askBounded } from '../../../protocol/ask_bounded'
import { fromAnyHex, toHex } from '../../../protocol/bytes'
import { readPckPlatform } from '../../../protocol/tdx/pck_extension'
import { parseQuote } from '../../../protocol/tdx/quote'
import { readCertificate } from '../../../protocol/x509/certificate'
import { LOCATION_ANSWER_BYTES_MAX } from '../../limits'
import { type LocationAnswer, type LocationStatement, readStatement } from '../evidence_bundle'
import { parseJson } from '../json_document'
import type { LocationAuthority } from '../policy'
import { Refused } from '../transcript'

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
