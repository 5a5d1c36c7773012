/** Collects everything a verification needs; whatever cannot be had stands as null and fails its check. */
import { fromAnyHex } from '../../../protocol/any_hex'
import { toHex } from '../../../protocol/bytes'
import type { Collateral } from '../../../protocol/collateral'
import type { Transport } from '../../api/transport'
import type { ConnectOptions } from '../../verified_venue'
import { BUNDLE_FORMAT, type EvidenceBundle } from '../evidence_bundle'
import type { VerificationPolicy } from '../policy'
import { collectChain } from './collect_chain'
import { collectCollateral, INTEL_PCS } from './collect_collateral'
import { collectKms } from './collect_kms'
import { collectVenue, EvidenceUnavailable, type VenueEvidence } from './collect_venue'

const TIMEOUT_MS = 10_000

/** @throws EvidenceUnavailable when the venue itself does not answer. */
export async function collectEvidence(
  transport: Transport,
  spki_sha256: string | null,
  policy: VerificationPolicy,
  options: ConnectOptions,
): Promise<EvidenceBundle> {
  const timeout_ms = options.timeout_ms ?? TIMEOUT_MS
  const nonce = toHex(crypto.getRandomValues(new Uint8Array(32)))
  const venue = await collectVenue(transport, nonce, timeout_ms)
  const [collateral, chain, kms_allowed] = await Promise.all([
    options.collateral ?? orNull(collateralFor(venue, policy, timeout_ms)),
    policy.chain === undefined ? null : orNull(collectChain(policy.chain, timeout_ms)),
    policy.kms === undefined
      ? null
      : orNull(collectKms(policy.kms, venue.info.app_id, venue.info.compose_hash, timeout_ms)),
  ])
  return {
    format: BUNDLE_FORMAT,
    url: transport.base_url,
    now_ms: (options.unixMs ?? Date.now)(),
    nonce,
    spki_sha256,
    ...venue,
    collateral,
    app_compose: options.app_compose ?? null,
    chain,
    kms_allowed,
  }
}

async function collateralFor(
  venue: VenueEvidence,
  policy: VerificationPolicy,
  timeout_ms: number,
): Promise<Collateral> {
  const quote = fromAnyHex(venue.attestation.quote)
  if (quote === undefined) throw new EvidenceUnavailable('the quote is not hex')
  return collectCollateral(policy.collateral_url ?? INTEL_PCS, quote, timeout_ms)
}

/** Absent evidence fails its own check, with the others judged all the same. */
function orNull<T>(collected: Promise<T>): Promise<T | null> {
  return collected.catch(() => null)
}
