/** Collects the evidence of one verification; a missing part is null and fails its check. */

import { askBounded } from '../../../protocol/ask_bounded'
import { fromAnyHex, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { readPckPlatform } from '../../../protocol/tdx/pck_extension'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodeConfig } from '../../../protocol/vault/accounts'
import { readCertificate } from '../../../protocol/x509/certificate'
import { CHAIN_LAG_SLOTS_MAX, EVIDENCE_CALL_MS, LOCATION_ANSWER_BYTES_MAX } from '../../limits'
import type { ConnectOptions } from '../../verified_venue'
import {
  BUNDLE_FORMAT,
  type ChainRecord,
  type EvidenceBundle,
  type LeaderEvidence,
  type LocationAnswer,
  type LocationStatement,
  readStatement,
} from '../evidence_bundle'
import { decodeBase64, parseJson } from '../json_document'
import { type ChainPolicy, type LocationAuthority, requireParsed, type VerificationPolicy } from '../policy'
import { Refused, reasonOf } from '../transcript'
import { collectChain, collectKms, collectKmsContract } from './collect_chain'
import { collectCollateral, INTEL_PCS } from './collect_collateral'
import { type AskingTransport, boundIn, collectLeader, collectVenue } from './collect_venue'

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
  const nonce = newNonce()
  const venue = await collectVenue(transport, nonce, timeout_ms)
  const shared: EvidenceBundle['missing'] = {}
  const leading = venue.info.epoch === 0 ? await collectLeading(transport, timeout_ms) : null
  // After the answers: an epoch that a node states is on the chain by then.
  const [own, of_leader, chain] = await Promise.all([
    collectWitnesses(venue, policy, options),
    leading && collectWitnesses(leading, policy, options),
    policy.chain && orNull(shared, 'chain', chainBehind(leading ?? venue, policy.chain, timeout_ms)),
  ])
  return {
    format: BUNDLE_FORMAT,
    url: transport.base_url,
    now_ms: Math.floor((options.unixMs ?? Date.now)()),
    nonce,
    spki_sha256,
    ...venue,
    ...own,
    missing: { ...own.missing, ...shared },
    chain: chain ?? null,
    leader: leading && { ...leading, ...of_leader! },
  }
}

const newNonce = (): string => toHex(crypto.getRandomValues(new Uint8Array(32)))

/** With a nonce of its own: no answer of one node is one of the other. */
async function collectLeading(
  transport: AskingTransport,
  timeout_ms: number,
): Promise<Pick<LeaderEvidence, 'nonce' | 'info' | 'attestation'>> {
  const nonce = newNonce()
  return { nonce, ...(await collectLeader(transport, nonce, timeout_ms)) }
}

/** Where the policy's nodes show an earlier epoch than the venue states, they may be behind it: they are read again at its slot. */
async function chainBehind(
  { info, attestation }: Pick<EvidenceBundle, 'info' | 'attestation'>,
  policy: ChainPolicy,
  timeout_ms: number,
): Promise<ChainRecord> {
  const first = await collectChain(policy, timeout_ms)
  const config = decodeConfig(decodeBase64(first.config.data))
  const lag = Number(boundIn(attestation)?.slot ?? 0n) - first.slot
  const is_behind = config !== undefined && config.epoch < info.epoch && lag > 0 && lag <= CHAIN_LAG_SLOTS_MAX
  return is_behind ? collectChain(policy, timeout_ms, first.slot + lag) : first
}

/** A missing part fails its own check; the others are still judged. */
const orNull = <T>(
  missing: EvidenceBundle['missing'],
  name: keyof EvidenceBundle['missing'],
  collected: Promise<T>,
): Promise<T | null> =>
  collected.catch((error: unknown) => {
    missing[name] = reasonOf(error)
    return null
  })

/** What others say about one node. */
async function collectWitnesses(
  { info, attestation }: Pick<EvidenceBundle, 'info' | 'attestation'>,
  policy: VerificationPolicy,
  options: ConnectOptions,
): Promise<Omit<LeaderEvidence, 'nonce' | 'info' | 'attestation'>> {
  const timeout_ms = options.timeout_ms ?? EVIDENCE_CALL_MS
  const { app_id, compose_hash, instance_id } = info
  const { quote } = attestation
  const missing: EvidenceBundle['missing'] = {}
  const { kms, location } = policy
  const locate = async () => {
    if (location === undefined) return null
    const found = await collectLocation(location.authorities, quote, instance_id, timeout_ms)
    if (found.silent.length > 0) missing.location = 'it did not answer'
    return found.answers
  }
  const [collateral, kms_allowed, kms_contract, answers] = await Promise.all([
    options.collateral ?? orNull(missing, 'collateral', collateralFor(quote, policy, timeout_ms)),
    kms === undefined ? null : orNull(missing, 'kms', collectKms(kms, app_id, compose_hash, timeout_ms)),
    kms?.owners === undefined
      ? null
      : orNull(missing, 'kms_owner', collectKmsContract(kms, app_id, timeout_ms)),
    orNull(missing, 'location', locate()),
  ])
  const texts = [options.app_compose ?? []].flat()
  // The check hashes it again: one that is none of them fails it.
  const app_compose = texts.find((text) => toHex(sha256(utf8(text))) === compose_hash) ?? texts[0] ?? null
  return { collateral, app_compose, kms_allowed, kms_contract, location: answers ?? [], missing }
}

async function collateralFor(
  text: string,
  policy: VerificationPolicy,
  timeout_ms: number,
): Promise<Collateral> {
  const quote = fromAnyHex(text)
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
