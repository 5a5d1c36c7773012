/** Collects the evidence of one verification; a missing part is null and fails its check. */

import { askBounded } from '../../../protocol/ask_bounded'
import { fromAnyHex, toHex } from '../../../protocol/bytes'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { readPckPlatform } from '../../../protocol/tdx/pck_extension'
import { parseQuote } from '../../../protocol/tdx/quote'
import { readCertificate } from '../../../protocol/x509/certificate'
import { EVIDENCE_CALL_MS, LOCATION_ANSWER_BYTES_MAX } from '../../limits'
import type { ConnectOptions } from '../../verified_venue'
import {
  BUNDLE_FORMAT,
  type EvidenceBundle,
  type LocationAnswer,
  type LocationStatement,
  readStatement,
} from '../evidence_bundle'
import { parseJson } from '../json_document'
import { type LocationAuthority, requireParsed, type VerificationPolicy } from '../policy'
import { Refused, reasonOf } from '../transcript'
import { collectChain, collectKms, collectKmsContract } from './collect_chain'
import { collectCollateral, INTEL_PCS } from './collect_collateral'
import { type AskingTransport, collectVenue, type VenueEvidence } from './collect_venue'

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
  const nonce = toHex(crypto.getRandomValues(new Uint8Array(32)))
  const venue = await collectVenue(transport, nonce, timeout_ms)
  const missing: EvidenceBundle['missing'] = {}
  /** A missing part fails its own check; the others are still judged. */
  const orNull = <T>(name: keyof typeof missing, collected: Promise<T>): Promise<T | null> =>
    collected.catch((error: unknown) => {
      missing[name] = reasonOf(error)
      return null
    })
  const { app_id, compose_hash, instance_id } = venue.info
  const { kms, location } = policy
  const locate = async () => {
    if (location === undefined) return null
    const { quote } = venue.attestation
    const found = await collectLocation(location.authorities, quote, instance_id, timeout_ms)
    if (found.silent.length > 0) missing.location = 'it did not answer'
    return found.answers
  }
  const [collateral, chain, kms_allowed, kms_contract, answers] = await Promise.all([
    options.collateral ?? orNull('collateral', collateralFor(venue, policy, timeout_ms)),
    policy.chain === undefined ? null : orNull('chain', collectChain(policy.chain, timeout_ms)),
    kms === undefined ? null : orNull('kms', collectKms(kms, app_id, compose_hash, timeout_ms)),
    kms?.owners === undefined ? null : orNull('kms_owner', collectKmsContract(kms, app_id, timeout_ms)),
    orNull('location', locate()),
  ])
  return {
    format: BUNDLE_FORMAT,
    url: transport.base_url,
    now_ms: Math.floor((options.unixMs ?? Date.now)()),
    nonce,
    spki_sha256,
    ...venue,
    collateral,
    app_compose: options.app_compose ?? null,
    chain,
    kms_allowed,
    kms_contract,
    location: answers ?? [],
    missing,
  }
}

async function collateralFor(
  venue: VenueEvidence,
  policy: VerificationPolicy,
  timeout_ms: number,
): Promise<Collateral> {
  const quote = fromAnyHex(venue.attestation.quote)
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
