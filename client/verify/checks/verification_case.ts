/** Carries the evidence, the policy and the facts of earlier checks through one verification. */
import type { BindingBody } from '../../../protocol/bodies/statements'
import type { BootEvent, MeasuredClaims } from '../../../protocol/tdx/event_log'
import type { KeyProvider } from '../../../protocol/tdx/mr_config_id'
import type { ConfigAccount } from '../../../protocol/vault/accounts'
import type { EvidenceBundle, MachineEvidence } from '../evidence_bundle'
import type { YamlMap } from '../lint_manifest'
import { SKIP_REASONS, type SkipReason, type VerificationPolicy } from '../policy'
import type { OpenedCollateral, TrustedRoots } from '../tdx/collateral'
import type { GenuineQuote } from '../tdx/genuine_quote'

/** Each fact is set by the check that establishes it; a later check that needs it is skipped without it. */
type Established = {
  collateral: OpenedCollateral
  genuine: GenuineQuote
  events: BootEvent[]
  claims: MeasuredClaims
  /** The settings of the service in the measured, linted manifest. */
  settings: YamlMap
  /** The measured app id, which the policy pins: the address of the app's contract. */
  pinned_app: Uint8Array
  /** The measured key provider, which the policy pins with its id. */
  pinned_key_provider: KeyProvider
  binding: BindingBody
  config: ConfigAccount
}

export type VerificationCase<B extends MachineEvidence = EvidenceBundle> = {
  readonly bundle: B
  readonly policy: VerificationPolicy
  readonly roots: TrustedRoots
  readonly now_ms: number
  readonly established: Partial<Established>
}

/** The check has nothing to judge, for the reason in the message. Never a pass; a policy permits it by its code. */
export class Skipped extends Error {
  override readonly name = 'Skipped'
  /** @param code empty when the check rests on one that did not pass @param detail follows the reason's sentence */
  constructor(
    readonly code: SkipReason | '',
    detail = '',
  ) {
    super(code === '' ? detail : `${SKIP_REASONS[code]}${detail}`)
  }
}

const FACT_NAMES: Record<keyof Established, string> = {
  collateral: 'the collateral',
  genuine: 'the quote',
  events: 'the event log',
  claims: 'what the machine measured',
  settings: 'the manifest text',
  pinned_app: 'a pinned app id',
  pinned_key_provider: 'a pinned key provider',
  binding: 'the binding',
  config: 'the vault account',
}

/** @throws Skipped when the check that establishes the fact did not pass. */
export function established<K extends keyof Established>(
  verification: Pick<VerificationCase, 'established'>,
  fact: K,
): Established[K] {
  const value = verification.established[fact]
  if (value === undefined) throw new Skipped('', `it rests on ${FACT_NAMES[fact]}, which did not hold`)
  return value
}

/** The values that a passed check read, for the transcript. */
export type CheckValues = Record<string, string>
export type RunCheck<B extends MachineEvidence = EvidenceBundle> = (
  verification: VerificationCase<B>,
) => CheckValues | Promise<CheckValues>
/** A check that reads only properties of the machine. */
export type RunMachineCheck = RunCheck<MachineEvidence>
