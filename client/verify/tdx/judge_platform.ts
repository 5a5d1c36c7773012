/** Whether the platform under a genuine quote is as current as a policy asks. */
import { toHex } from '../../../protocol/bytes'
import type { VerificationPolicy } from '../policy'
import { Refused, requireThat } from '../refused'
import type { GenuineQuote } from './genuine_quote'
import type { OpenedCollateral } from './open_collateral'
import { moduleFinding, platformFinding, quotingEnclaveFinding } from './platform_level'
import { combineFindings, type TcbFinding } from './tcb_status'

export type PlatformPolicy = Pick<
  VerificationPolicy,
  'tcb_statuses' | 'advisories' | 'tcb_evaluation_min' | 'ppids'
>

/** Worst status of platform, TDX module and quoting enclave. @throws Refused when one is unknown or below every level. */
export function platformStatus(genuine: GenuineQuote, collateral: OpenedCollateral): TcbFinding {
  const { quote, platform } = genuine
  const { tcb_info, qe_identity } = collateral
  // TD 1.5 states the versions at launch and those of now: a machine started under an old module stays one.
  const versions = [quote.report.tee_tcb_svn, quote.report.tee_tcb_svn_15].filter((svn) => svn !== undefined)
  const findings = versions.flatMap((svn) => [
    platformFinding(tcb_info, platform, svn),
    moduleFinding(tcb_info, quote.report, svn),
  ])
  const qe = quotingEnclaveFinding(qe_identity, quote.qe_report)
  return combineFindings([qe, ...findings.filter((finding) => finding !== undefined)])
}

/** @throws Refused */
export function requirePlatform(
  genuine: GenuineQuote,
  collateral: OpenedCollateral,
  policy: PlatformPolicy,
): TcbFinding {
  const finding = platformStatus(genuine, collateral)
  const allowed = policy.tcb_statuses.some((status) => status === finding.status)
  if (finding.status === 'Revoked' || !allowed)
    throw new Refused(`TCB status ${finding.status} is not allowed`)
  const surplus = finding.advisories.find((advisory) => !policy.advisories.includes(advisory))
  if (surplus !== undefined) throw new Refused(`advisory ${surplus} is not tolerated`)
  const { tcb_info, qe_identity } = collateral
  const evaluation = Math.min(tcb_info.evaluation_number, qe_identity.evaluation_number)
  requireThat(evaluation >= policy.tcb_evaluation_min, 'the TCB evaluation is older than the policy asks')
  const ppid = toHex(genuine.platform.ppid)
  requireThat(policy.ppids?.includes(ppid) ?? true, 'the physical machine is not one the policy names')
  return finding
}
