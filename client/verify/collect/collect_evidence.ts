/** Collects the evidence of one verification; a missing part is null and fails its check. */
import { fromAnyHex, toHex } from '../../../protocol/bytes'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { EVIDENCE_CALL_MS } from '../../limits'
import type { ConnectOptions } from '../../verified_venue'
import { BUNDLE_FORMAT, type EvidenceBundle } from '../evidence_bundle'
import { requireParsed, type VerificationPolicy } from '../policy'
import { Refused, reasonOf } from '../transcript'
import { collectChain, collectKms, collectKmsContract } from './collect_chain'
import { collectCollateral, INTEL_PCS } from './collect_collateral'
import { collectLocation } from './collect_location'
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
