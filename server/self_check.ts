/** Judges the own machine by the verifier that clients run, before the venue opens an epoch that clients would not believe. */

import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { judgeMachine } from '../client/verify/judge_evidence'
import { parsePolicy, TCB_STATUSES } from '../client/verify/policy'
import { parseCollateral } from '../client/verify/tdx/collateral'
import type { Enclave } from '../enclave/contract'
import type { ClockPort } from '../engine/ports'
import { encodeBase58 } from '../protocol/base58'
import { fromAnyHex, toHex } from '../protocol/bytes'
import type { Collateral } from '../protocol/tdx/collateral'
import { SECRET_NAMES } from '../protocol/tdx/venue_manifest'
import type { AnnouncedEntry } from '../protocol/vault/admin'
import type { Log } from './edge/log'
import { COLLATERAL_CHECK_MS, COLLATERAL_WARNING_MS } from './limits'

/** Collateral is absent or not valid, for the reason in the message: a later attempt may judge the machine. */
export class MachineUnjudged extends Error {
  override readonly name = 'MachineUnjudged'
}

export type SelfCheckTerms = {
  /** Further members of the policy, which replace the machine's own. */
  policy: Record<string, unknown>
  /** Collateral for a quote, from where clients get theirs. */
  collect(quote: Uint8Array): Promise<Collateral>
}

type Checked = {
  enclave: Pick<Enclave, 'identity' | 'keyProof'>
  terms: SelfCheckTerms
  data_dir: string
  now_ms: number
}

/** `valid_until_ms` is the end of the collateral by which the machine was judged, Unix milliseconds. */
type Judgement = { reasons: string[]; valid_until_ms: number }

/**
 * The reasons why every client would reject this machine; each bars the opening of an epoch. Platforms are judged by conditions
 * that no policy can allow: statuses and advisories that some policies allow are no reasons.
 * @throws MachineUnjudged without valid collateral, which says nothing about the machine; the errors of `keyProof`
 */
export async function selfCheck({ enclave, terms, data_dir, now_ms }: Checked): Promise<Judgement> {
  const { identity } = enclave
  const nonce = toHex(crypto.getRandomValues(new Uint8Array(32)))
  const attestation = await enclave.keyProof('settlement', nonce)
  const missing: { collateral?: string } = {}
  const collected = await terms.collect(fromAnyHex(attestation.quote)!).catch((error: unknown) => {
    missing.collateral = error instanceof Error ? error.message : 'unknown'
    return null
  })
  const info = { ...identity, tee_pubkey: encodeBase58(identity.tee_pubkey) }
  // The manifest of a sandbox runs no image, which the linter rejects.
  const app_compose = identity.kind === 'dstack' ? identity.app_compose : null
  const reasons: string[] = []
  // A service that is withheld, or answers with garbage, must not stop a start that the collateral of an earlier one allows.
  for (const collateral of [collected, storedCollateral(data_dir)]) {
    if (collateral === null) continue
    const policy = parsePolicy(JSON.stringify({ ...ownPolicy(app_compose, collateral), ...terms.policy }))
    const evidence = { now_ms, nonce, info, attestation, collateral, app_compose, missing }
    const [judged, ...checks] = await judgeMachine(evidence, policy)
    if (judged!.result === 'pass') {
      storeCollateral(data_dir, collateral)
      const failed = checks.filter(({ result }) => result === 'fail')
      return {
        reasons: failed.map(({ number, reason }) => `${reason} (${number})`),
        valid_until_ms: Date.parse(judged!.values['valid_until']!),
      }
    }
    reasons.push(judged!.reason)
  }
  throw new MachineUnjudged([...reasons, ...Object.values(missing)].join(': '))
}

/** Another node's evidence is of no machine that may hold this venue's epoch, for the reason in the message. */
class PeerRejected extends Error {
  override readonly name = 'PeerRejected'
}

/**
 * Judges another node as its vault would judge the opening of an epoch: a node that may not lead gets no link.
 * @param announced the vault's announcements, judged at `now_ms` of the chain's clock
 * @throws PeerRejected, or the errors of `collect` and `announced`
 */
export async function judgePeer(
  {
    terms,
    announced,
    now_ms,
  }: { terms: SelfCheckTerms; announced: readonly AnnouncedEntry[]; now_ms: number },
  { nonce, info, attestation }: Pick<Parameters<typeof judgeMachine>[0], 'nonce' | 'info' | 'attestation'>,
): Promise<void> {
  const quote = fromAnyHex(attestation.quote)
  if (quote === undefined) throw new PeerRejected('the quote is not hex')
  const collateral = await terms.collect(quote)
  const policy = parsePolicy(JSON.stringify({ ...ownPolicy(null, collateral), ...terms.policy }))
  const evidence = { now_ms, nonce, info, attestation, collateral, app_compose: null, missing: {} }
  const checks = await judgeMachine(evidence, policy, announced)
  const needed = ['report_data', 'announced']
  const failed = checks.find(
    ({ name, result }) => result === 'fail' || (needed.includes(name) && result !== 'pass'),
  )
  if (failed !== undefined) throw new PeerRejected(`${failed.reason} (${failed.number})`)
}

/** Every advisory that the collateral names is allowed, because policies differ there. */
function ownPolicy(app_compose: string | null, collateral: Collateral): Record<string, unknown> {
  const key_provider_id = pinnedProvider(app_compose)
  return {
    tcb_statuses: TCB_STATUSES,
    advisories: advisoriesIn(`${collateral.tcb_info}${collateral.qe_identity}`),
    environment_names: SECRET_NAMES,
    ...(key_provider_id === undefined ? {} : { key_providers: [{ name: 'kms', id: key_provider_id }] }),
  }
}

function advisoriesIn(documents: string): string[] {
  return [...documents.matchAll(/"([A-Z][A-Z-]*-SA-\d+)"/g)].map(([, advisory]) => advisory!)
}

/** The KMS that the manifest names; undefined where it names none, or in no form that check 3.2 accepts. */
function pinnedProvider(app_compose: string | null): string | undefined {
  return /"key_provider_id":"((?:[0-9a-f]{2})+)"/.exec(app_compose ?? '')?.[1]
}

/** Stored unencrypted: its signatures and dates are judged at each use, so its writer needs no trust. */
const pathIn = (data_dir: string) => join(data_dir, 'collateral.json')

/** The collateral of an earlier start, so that a service that is withheld does not stop this one; null without a file. */
function storedCollateral(data_dir: string): Collateral | null {
  try {
    return parseCollateral(readFileSync(pathIn(data_dir), 'utf8'))
  } catch {
    return null
  }
}

/** A disk that cannot keep it costs the next start its fallback, nothing else. */
function storeCollateral(data_dir: string, collateral: Collateral): void {
  try {
    mkdirSync(data_dir, { recursive: true, mode: 0o700 })
    writeFileSync(`${pathIn(data_dir)}.new`, JSON.stringify(collateral))
    renameSync(`${pathIn(data_dir)}.new`, pathIn(data_dir))
  } catch {
    rmSync(`${pathIn(data_dir)}.new`, { force: true })
  }
}

type Kept = {
  /** Of the start. */
  first: Pick<Judgement, 'valid_until_ms'>
  /** Fetches, judges and keeps collateral; falls back on the kept one. */
  judge(): Promise<Pick<Judgement, 'valid_until_ms'>>
  clock: Pick<ClockPort, 'unixMs'>
  log: Log
  every_ms?: number
}

/** The fallback of the next start while Intel's service does not answer. */
export interface KeptCollateral {
  /** Its end in Unix milliseconds. */
  endsMs(): number
  /** Whether it ends within COLLATERAL_WARNING_MS. */
  isEnding(): boolean
  stop(): void
}

/** The verdict itself stays that of the start: a running venue is judged by its clients. */
export function keepCollateral({ first, judge, clock, log, every_ms }: Kept): KeptCollateral {
  let ends_ms = first.valid_until_ms
  const renew = () =>
    judge().then(
      ({ valid_until_ms }) => {
        ends_ms = valid_until_ms
      },
      (error: unknown) => {
        const reason = error instanceof MachineUnjudged ? error.message : 'the guest agent gave no quote'
        log.write('warn', 'machine_unjudged', { reason })
      },
    )
  const timer = setInterval(renew, every_ms ?? COLLATERAL_CHECK_MS)
  timer.unref()
  return {
    endsMs: () => ends_ms,
    isEnding: () => ends_ms - clock.unixMs() < COLLATERAL_WARNING_MS,
    stop: () => clearInterval(timer),
  }
}
