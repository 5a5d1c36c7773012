/** Describes the checks of a verification, their transcript, and the error that fails a check. */
import { CodecError } from '../../protocol/byte_stream'
import { Refused } from '../../protocol/tacit_error'
import { MalformedEventLog } from '../../protocol/tdx/event_log'
import { MalformedQuote } from '../../protocol/tdx/quote'
import type { SkipReason } from './policy'

export { Refused }

/** One sentence for a transcript. An unexpected error rejects too and is named as such. */
export function reasonOf(error: unknown): string {
  const known = [Refused, MalformedQuote, MalformedEventLog, CodecError]
  if (known.some((kind) => error instanceof kind)) return (error as Error).message
  return `unexpected ${error instanceof Error ? `${error.name}: ${error.message}` : 'fault'}`
}

/** @throws Refused with `reason` unless the condition holds. */
export function requireThat(condition: boolean, reason: string): asserts condition {
  if (!condition) throw new Refused(reason)
}

/** The checks in the order they run; the first digit of the number is the step (attestation.md). */
export const CHECKS = [
  [
    '1.1',
    'collateral',
    'revocation lists, TCB info and QE identity are signed under a trusted root and current',
  ],
  ['1.2', 'quote', 'the quote is genuine: PCK chain, quoting enclave and signature'],
  ['1.3', 'platform', 'platform, TDX module and quoting enclave are as current as the policy asks'],
  ['1.4', 'machine', "the machine runs without debugging, migration or service TD on Intel's TDX module"],
  ['1.5', 'xfam', 'the machine uses no processor features but those the policy names'],
  ['1.6', 'enclave', 'the venue states the kind of enclave that its quote shows'],
  ['2.1', 'registers', 'the event log leads to the registers in the quote'],
  ['2.2', 'claims', 'the machine measured exactly one app, manifest, instance and key provider'],
  ['2.3', 'mr_config_id', 'the quote itself commits to the measured manifest'],
  ['2.4', 'app', 'the measured app id is one the policy pins'],
  ['2.5', 'key_provider', 'the app keys come from a key provider that the policy pins by name and id'],
  ['3.1', 'compose_hash', 'the measured manifest is one the policy pins'],
  ['3.2', 'manifest', 'the manifest text is the measured one and hides nothing'],
  ['3.3', 'rpc_operators', 'the measured manifest reads the chain from RPC operators that the policy names'],
  ['4.1', 'os_image', 'the operating system is one the policy names'],
  ['5.1', 'report_data', 'the quote carries this nonce and the settlement key'],
  ['5.2', 'binding', 'the settlement key certifies venue, instance, epoch and nonce'],
  ['5.3', 'tls_key', 'the attested TLS key is the one of this connection'],
  ['5.4', 'evidence', 'the evidence files carry a quote of the same machine over the same TLS key'],
  [
    '6.1',
    'settlement_signer',
    'the vault on chain took this settlement key with a quote, in this epoch and generation',
  ],
  [
    '6.1',
    'following',
    'the node follows: it is of no epoch, and its vault and venue are those of the leading node',
  ],
  ['6.2', 'vault_state', 'the vault is open and no unexpected change is announced'],
  ['6.3', 'program', 'the vault program is the expected one and cannot be replaced unexpectedly'],
  ['6.4', 'kms', 'the contract that governs the app keys allows the measured manifest'],
  ['6.5', 'kms_owner', 'the owner of that contract is one the policy pins, with the timelock it asks for'],
  ['6.6', 'exit_delay', 'announced changes wait at least as long as the policy asks'],
  ['6.7', 'admin', 'the administrator of the vault is one the policy pins'],
  [
    '6.8',
    'announced',
    'what the vault announces admits this machine and build, and no change that the policy does not expect',
  ],
  ['7.1', 'machine_list', 'the physical machine is one the policy lists'],
  ['7.2', 'location', 'authorities that the policy names state where the machine is'],
] as const
/** A node leads or follows: it is judged by all but one. */
export const CHECKS_OF_LEADER = CHECKS.filter(([, name]) => name !== 'following')
export type CheckName = (typeof CHECKS)[number][1]

/** The lines of a policy that decide a check, if the policy does. */
const POLICY_LINES: Partial<Record<CheckName, string>> = {
  collateral: 'collateral_url, roots_pem',
  quote: 'roots_pem',
  xfam: 'xfam_mask',
  app: 'app_ids',
  platform: 'tcb_statuses, advisories, tcb_evaluation_min',
  key_provider: 'key_providers',
  compose_hash: 'compose_hashes',
  manifest: 'environment_names',
  rpc_operators: 'rpc_operators',
  os_image: 'os_image_hashes, registers',
  machine_list: 'ppids',
  location: 'location',
  settlement_signer: 'chain.rpc_url, chain.witness_rpc_urls, chain.program_id',
  following: 'chain.rpc_url, chain.witness_rpc_urls, chain.program_id',
  admin: 'chain.admins',
  vault_state: 'chain.pending_actions, chain.paused_allowed',
  exit_delay: 'chain.exit_delay_min_s',
  announced: 'compose_hashes, ppids, registers, chain.epoch_authorities, chain.pending_actions',
  program: 'chain.program_sha256, chain.upgrade_authorities',
  kms: 'kms.rpc_url',
  kms_owner: 'kms.owners, kms.timelock_min_s',
}
/** The part of the policy to look at after a check that did not pass. */
export function policyLine(name: CheckName, result: CheckResult): string {
  const lines = POLICY_LINES[name]
  if (result === 'skipped') return `policy: ${lines === undefined ? '' : `${lines}, or `}permitted_skips`
  return lines === undefined ? 'no policy decides this' : `policy: ${lines}`
}

export type CheckResult = 'pass' | 'fail' | 'skipped'
export type Check = {
  number: string
  name: CheckName
  /** The meaning of a pass. */
  statement: string
  result: CheckResult
  /** The reason of a failure or skip; empty for a pass. */
  reason: string
  /** Code of a skip that a policy may permit; empty for any other outcome. */
  reason_code: SkipReason | ''
  /** The values that the check read, for display and logs. */
  values: Record<string, string>
  /** Of the node that leads, where the one that serves follows it. */
  leading?: true
}

/**
 * A skip is never a pass. `verified`: every check passed. `partial`: nothing failed, and the policy permits each skip.
 * `incomplete`: nothing failed, but a skip is not permitted. `failed`: at least one check failed.
 */
export type Verdict = 'verified' | 'partial' | 'incomplete' | 'failed'

export type Transcript = {
  url: string
  /** The time at which validity periods were judged, RFC 3339. */
  judged_at: string
  /** `recorded`: connection and chain are as an evidence bundle states them. */
  source: 'live' | 'recorded'
  /** False when the policy replaced Intel's root: the transcript then proves no real hardware. */
  intel_root: boolean
  verdict: Verdict
  checks: Check[]
}

/** True when a client may use the venue under its policy. */
export function isAccepted(transcript: Transcript): boolean {
  return transcript.verdict === 'verified' || transcript.verdict === 'partial'
}

const LEADING = 'the leading node, which signs receipts:'
/** The transcript for a terminal: one line per check with its values below, the verdict last. */
export function transcriptText(transcript: Transcript): string {
  const { url, judged_at, source, intel_root, checks, verdict } = transcript
  const lines = [
    `${printable(url)} judged at ${judged_at}${source === 'recorded' ? ' from recorded evidence' : ''}`,
  ]
  if (!intel_root) lines.push("NOT PRODUCTION: the policy replaced Intel's root, no hardware is proven")
  for (const { number, name: check, result, statement, reason, reason_code, values, leading } of checks) {
    if (leading && !lines.includes(LEADING)) lines.push(LEADING)
    const mark = { pass: 'pass', fail: 'FAIL', skipped: 'skip' }[result]
    lines.push(
      `${number} ${mark}  ${statement}${reason === '' ? '' : `: ${printable(reason)}`}${reason_code === '' ? '' : ` (${reason_code})`}`,
    )
    if (result === 'fail') lines.push(`          ${policyLine(check, result)}`)
    for (const [name, value] of Object.entries(values)) lines.push(`          ${name} ${printable(value)}`)
  }
  const count = (result: 'pass' | 'fail') => checks.filter((check) => check.result === result).length
  const skipped = checks.filter(({ result }) => result === 'skipped')
  // A check that is skipped for one reason on both nodes is named once.
  lines.push(
    ...new Set(skipped.map(({ name, reason }) => `not checked: ${name}, because ${printable(reason)}`)),
  )
  const [passed, failed] = [count('pass'), count('fail')]
  const permitted = `accepted: the policy permits the ${skipped.length} skips, ${passed} passed, ${failed} failed`
  lines.push(
    verdict === 'partial'
      ? `PARTIAL, ${permitted}`
      : `${verdict.toUpperCase()}: ${passed} passed, ${failed} failed, ${skipped.length} skipped`,
  )
  return lines.join('\n')
}

/** Text of others as printable ASCII: control and direction characters would rewrite the terminal that shows a verdict. */
export function printable(text: string): string {
  return text.replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
