/** A venue that passed verification: the only way to get a transport to it. */
import type { Collateral } from '../protocol/tdx/collateral'
import type { Attestation, Info } from '../protocol/wire/public'
import type { Transport } from './api/venue_client'
import type { EvidenceBundle } from './verify/evidence_bundle'
import type { Transcript } from './verify/transcript'

/** `fetch` and `webSocket` take a path and refuse every connection whose TLS key is not the attested one. */
export type VerifiedVenue = Transport & {
  info: Info
  attestation: Attestation
  transcript: Transcript
  /** All of it as data; `JSON.stringify` makes the file that `tacit verify --offline` judges again. */
  evidence: EvidenceBundle
}

export type ConnectOptions = {
  /** Collateral at hand, instead of asking the policy's `collateral_url`. */
  collateral?: Collateral
  /** Exact text of the manifest at hand, to be linted. */
  app_compose?: string
  /** Time source; the system clock when absent. */
  unixMs?: () => number
  /** For every answer of venue, chain and collateral service. */
  timeout_ms?: number
}

/** The venue is refused; `transcript` says which check failed. Nothing but public evidence was exchanged. */
export class VerificationFailed extends Error {
  override readonly name = 'VerificationFailed'
  constructor(
    readonly transcript: Transcript,
    readonly evidence: EvidenceBundle,
  ) {
    const bad = transcript.checks.filter((check) => check.result !== 'pass')
    super(`the venue is refused: ${bad.map((check) => `${check.name}: ${check.reason}`).join('; ')}`)
  }
}
