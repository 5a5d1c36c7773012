/** Verifies a venue completely, and only then gives a transport to it. */
import type { Collateral } from '../protocol/tdx/collateral'
import type { Attestation, Info } from '../protocol/wire/public'
import type { Transport } from './api/venue_client'
import { HANDSHAKE_MS } from './limits'
import { collectEvidence } from './verify/collect/collect_evidence'
import { EvidenceUnavailable } from './verify/collect/collect_venue'
import { type Peer, pinnedTransport, readPeer } from './verify/collect/pinned_transport'
import type { EvidenceBundle } from './verify/evidence_bundle'
import { judgeEvidence } from './verify/judge_evidence'
import type { VerificationPolicy } from './verify/policy'
import { isAccepted, type Transcript } from './verify/transcript'

// A venue that passed verification: the only way to get a transport to it.

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

// The one call a trader makes first: verifies a venue completely, and only then gives a transport to it.

/**
 * Fails closed: without an accepting transcript there is no transport.
 * @param url HTTPS origin of the venue.
 * @throws VerificationFailed when a check fails or is skipped without permission, with the transcript; EvidenceUnavailable
 * when the venue does not answer.
 */
export async function connect(
  url: string,
  policy: VerificationPolicy,
  options: ConnectOptions = {},
): Promise<VerifiedVenue> {
  const origin = new URL(url)
  if (origin.protocol !== 'https:') throw new RangeError('a venue is reached over https')
  const peer = await readPeer(origin, options.timeout_ms ?? HANDSHAKE_MS).catch((error: unknown): Peer => {
    throw new EvidenceUnavailable('the venue did not open TLS', { cause: error })
  })
  const transport = pinnedTransport(origin, peer)
  const evidence = await collectEvidence(transport, peer.spki_sha256, policy, options)
  const transcript = await judgeEvidence(evidence, policy, 'live')
  if (!isAccepted(transcript)) throw new VerificationFailed(transcript, evidence)
  const { info, attestation } = evidence
  return { ...transport, info, attestation, transcript, evidence }
}
