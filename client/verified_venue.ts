/** Types the outcome of a verification: a venue with its pinned transport, or a failure with its transcript. */

import { MustStop } from '../protocol/tacit_error'
import type { Collateral } from '../protocol/tdx/collateral'
import type { Attestation, Info } from '../protocol/wire/public'
import type { Transport } from './api/venue_client'
import type { EvidenceBundle } from './verify/evidence_bundle'
import { type CheckName, policyLine, type Transcript } from './verify/transcript'

/** A venue that passed verification. Its transport rejects every connection whose TLS key is not the attested one. */
export type VerifiedVenue = Transport & {
  /** Of the node that leads, as is `attestation`: where the one that serves follows it, its own are in `evidence`. */
  info: Info
  attestation: Attestation
  transcript: Transcript
  /** The evidence that was judged; as JSON it is the file that `tacit verify --offline` judges again. */
  evidence: EvidenceBundle
}

export type ConnectOptions = {
  /** Collateral that replaces the request to the policy's `collateral_url`. */
  collateral?: Collateral
  /** Exact text of the manifest, to be hashed and linted; of several, that of the build which a machine states. */
  app_compose?: string | readonly string[]
  /** Time source; the system clock when absent. */
  unixMs?: () => number
  /** Longest wait for each answer of venue, chain and collateral service. */
  timeout_ms?: number
}

/** The venue is rejected; `transcript` names the failed checks. Only public evidence was exchanged. */
export class VerificationFailed extends MustStop<{ failed: CheckName[] }> {
  override readonly name = 'VerificationFailed'
  readonly code = 'verification_failed'
  constructor(
    readonly transcript: Transcript,
    readonly evidence: EvidenceBundle,
  ) {
    const bad = transcript.checks.filter((check) => check.result !== 'pass')
    const failed = bad.filter((check) => check.result === 'fail')
    // If another check failed, no skip is the cause; a skip without a reason code rests on another check.
    const causes = failed.length > 0 ? failed : bad.filter((check) => check.reason_code !== '')
    const said = causes.map(
      ({ name, result, reason, leading }) =>
        `${leading ? 'the leading node: ' : ''}${name}: ${reason} (${policyLine(name, result)})`,
    )
    if (causes.length < bad.length)
      said.push(`${bad.length - causes.length} other checks did not pass either`)
    super(`the venue is refused: ${said.join('; ')}`, { failed: bad.map(({ name }) => name) })
  }
}
