/** Verifies a venue and opens a transport to it: the first call of every trader. */
import { HANDSHAKE_MS } from './limits'
import { type ConnectOptions, VerificationFailed, type VerifiedVenue } from './verified_venue'
import { collectEvidence, EvidenceUnavailable } from './verify/collect/collect_evidence'
import { type Peer, pinnedTransport, readPeer } from './verify/collect/pinned_transport'
import { leadingOf } from './verify/evidence_bundle'
import { judgeEvidence } from './verify/judge_evidence'
import { parsePolicy, requireParsed, type VerificationPolicy } from './verify/policy'
import { parseCollateral } from './verify/tdx/collateral'
import { isAccepted, Refused } from './verify/transcript'

/**
 * Fails closed: without an accepting transcript there is no transport. Bun, Node and Deno; a browser pins no TLS key, and
 * there `collectEvidence` and `judgeEvidence` verify without a pinned connection.
 * @param urls HTTPS origin of the venue, or of its nodes: all are verified at once, and the first that is accepted serves
 * @param policy by default the one that `start` wrote into ./data for the venue of this machine, with its collateral
 * @throws VerificationFailed with the transcript when a check fails or is skipped without permission;
 * EvidenceUnavailable when the venue does not answer; Refused when the policy's roots are not certificates or
 * `parsePolicy` did not make it
 */
export async function connect(
  urls: string | readonly string[],
  policy?: VerificationPolicy,
  options: ConnectOptions = {},
): Promise<VerifiedVenue> {
  if ('document' in globalThis) throw new Error('connect needs Bun, Node or Deno: a browser pins no TLS key')
  const origins = [urls].flat()
  if (origins.length === 0) throw new RangeError('no address of a venue is given')
  try {
    // One node of several leads; the others may be silent for as long as a handshake may take.
    return await Promise.any(origins.map((url) => connectTo(url, policy, options)))
  } catch (error) {
    const { errors } = error as AggregateError
    // A node that is rejected says more than one that does not answer.
    throw errors.find((one) => !(one instanceof EvidenceUnavailable)) ?? errors[0]
  }
}

async function connectTo(
  url: string,
  named: VerificationPolicy | undefined,
  given: ConnectOptions,
): Promise<VerifiedVenue> {
  const terms = named === undefined ? sandboxTerms(url) : undefined
  const policy = named ?? parsePolicy(terms!.policy)
  const options = terms === undefined ? given : { collateral: parseCollateral(terms.collateral), ...given }
  requireParsed(policy)
  const origin = new URL(url)
  if (origin.protocol !== 'https:') throw new RangeError('a venue is reached over https')
  const peer = await readPeer(origin, options.timeout_ms ?? HANDSHAKE_MS).catch((error: unknown): Peer => {
    const is_silent = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
    const finding = is_silent
      ? `nothing answers at ${origin.origin}: is the venue running`
      : 'the venue did not open TLS'
    throw new EvidenceUnavailable(finding, { cause: error })
  })
  const transport = await pinnedTransport(origin, peer)
  const evidence = await collectEvidence(transport, peer.spki_sha256, policy, options)
  const transcript = await judgeEvidence(evidence, policy, 'live')
  if (!isAccepted(transcript)) throw new VerificationFailed(transcript, evidence)
  const { info, attestation } = leadingOf(evidence)
  return { ...transport, info, attestation, transcript, evidence }
}

/** Paths as `start` wrote them. */
export type SandboxVenue = {
  url: string
  policy: string
  collateral: string
  rpc_url: string
  program_id: string
  /** Of its demo account, if it has one. */
  login?: string
}

/** Undefined where `start` never ran. @param data its data folder */
export function readSandboxVenue(data = 'data'): SandboxVenue | undefined {
  const { existsSync, readFileSync } = process.getBuiltinModule('node:fs')
  const facts = `${data}/laptop.json`
  if (!existsSync(facts)) return undefined
  const { url, policy, collateral, rpc_url, program_id } = JSON.parse(readFileSync(facts, 'utf8'))
  const login = `${data}/demo-login.json`
  return { url, policy, collateral, rpc_url, program_id, ...(existsSync(login) ? { login } : {}) }
}

/** The texts of policy and collateral of the venue of this machine. @throws Refused where another one is at `url` */
function sandboxTerms(url: string, data?: string): { policy: string; collateral: string } {
  const found = readSandboxVenue(data)
  if (found === undefined || new URL(found.url).origin !== new URL(url).origin)
    throw new Refused(`a policy is needed for ${url}: 'start' wrote none for it into ./data`)
  const { readFileSync } = process.getBuiltinModule('node:fs')
  return { policy: readFileSync(found.policy, 'utf8'), collateral: readFileSync(found.collateral, 'utf8') }
}
