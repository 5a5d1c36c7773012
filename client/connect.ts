/** Verifies a venue and opens a transport to it: the first call of every trader. */
import { HANDSHAKE_MS } from './limits'
import { type ConnectOptions, VerificationFailed, type VerifiedVenue } from './verified_venue'
import { collectEvidence } from './verify/collect/collect_evidence'
import { EvidenceUnavailable } from './verify/collect/collect_venue'
import { type Peer, pinnedTransport, readPeer } from './verify/collect/pinned_transport'
import { judgeEvidence } from './verify/judge_evidence'
import { requireParsed, type VerificationPolicy } from './verify/policy'
import { isAccepted } from './verify/transcript'

/**
 * Fails closed: without an accepting transcript there is no transport. Bun, Node and Deno; a browser pins no TLS key, and
 * there `collectEvidence` and `judgeEvidence` verify without a pinned connection.
 * @param url HTTPS origin of the venue
 * @throws VerificationFailed with the transcript when a check fails or is skipped without permission;
 * EvidenceUnavailable when the venue does not answer; Refused when the policy's roots are not certificates or
 * `parsePolicy` did not make it
 */
export async function connect(
  url: string,
  policy: VerificationPolicy,
  options: ConnectOptions = {},
): Promise<VerifiedVenue> {
  if ('document' in globalThis) throw new Error('connect needs Bun, Node or Deno: a browser pins no TLS key')
  requireParsed(policy)
  const origin = new URL(url)
  if (origin.protocol !== 'https:') throw new RangeError('a venue is reached over https')
  const peer = await readPeer(origin, options.timeout_ms ?? HANDSHAKE_MS).catch((error: unknown): Peer => {
    throw new EvidenceUnavailable('the venue did not open TLS', { cause: error })
  })
  const transport = await pinnedTransport(origin, peer)
  const evidence = await collectEvidence(transport, peer.spki_sha256, policy, options)
  const transcript = await judgeEvidence(evidence, policy, 'live')
  if (!isAccepted(transcript)) throw new VerificationFailed(transcript, evidence)
  const { info, attestation } = evidence
  return { ...transport, info, attestation, transcript, evidence }
}
