/** Finds the TCB level of platform, TDX module and quoting enclave and judges it by a policy. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import type { PckPlatform } from '../../../protocol/tdx/pck_extension'
import type { QeReport, TdReport } from '../../../protocol/tdx/quote'
import { MODULE_MAJOR, MODULE_SVN } from '../../../protocol/tdx/td_rules'
import type { VerificationPolicy } from '../policy'
import { Refused, requireThat } from '../transcript'
import type { OpenedCollateral } from './collateral'
import type { GenuineQuote } from './genuine_quote'
import {
  combineFindings,
  type ModuleSigner,
  matchesMasked,
  type QeIdentity,
  type SvnLevel,
  type TcbFinding,
  type TcbInfo,
} from './tcb_info'

/**
 * The first level whose components the platform all reaches (Intel PCS API v4, "TCB level selection"). From major version
 * 1 on, the module's own two bytes are judged by its identity instead.
 */
function platformFinding(tcb_info: TcbInfo, platform: PckPlatform, tee_tcb_svn: Uint8Array): TcbFinding {
  const tdx_from = tee_tcb_svn[MODULE_MAJOR] === 0 ? 0 : 2
  const level = tcb_info.levels.find(
    ({ sgx, pce_svn, tdx }) =>
      platform.pce_svn >= pce_svn &&
      sgx.every((svn, at) => platform.cpu_svn[at]! >= svn) &&
      tdx.every((svn, at) => at < tdx_from || tee_tcb_svn[at]! >= svn),
  )
  if (level === undefined) throw new Refused('the platform is below every TCB level')
  return level.finding
}

/** Level of the TDX module after its signer and attributes; none for major version 0, which the platform level covers. */
function moduleFinding(tcb_info: TcbInfo, report: TdReport, tee_tcb_svn: Uint8Array): TcbFinding | undefined {
  const major = tee_tcb_svn[MODULE_MAJOR]!
  if (major === 0) {
    requireSigner(tcb_info.module_signer, report)
    return undefined
  }
  const id = `TDX_${toHex(Uint8Array.of(major)).toUpperCase()}`
  const identity = tcb_info.module_identities.find((known) => known.id === id)
  if (identity === undefined) throw new Refused('TCB info does not know the TDX module')
  requireSigner(identity, report)
  return svnFinding(identity.levels, tee_tcb_svn[MODULE_SVN]!, 'the TDX module')
}

function requireSigner(signer: ModuleSigner, report: TdReport): void {
  requireThat(equalBytes(report.mr_signer_seam, signer.mr_signer), 'the TDX module has another signer')
  const same = matchesMasked(report.seam_attributes, signer.attributes_mask, signer.attributes)
  requireThat(same, 'the TDX module has other attributes')
}

/** Level of the quoting enclave after its identity. */
function quotingEnclaveFinding(identity: QeIdentity, report: QeReport): TcbFinding {
  const { misc_select, misc_select_mask, attributes, attributes_mask } = identity
  requireThat(equalBytes(report.mr_signer, identity.mr_signer), 'the quoting enclave has another signer')
  requireThat(report.isv_prod_id === identity.isv_prod_id, 'the quoting enclave is another product')
  requireThat(
    matchesMasked(report.misc_select, misc_select_mask, misc_select),
    'the quoting enclave has other miscselect bits',
  )
  requireThat(
    matchesMasked(report.attributes, attributes_mask, attributes),
    'the quoting enclave has other attributes',
  )
  return svnFinding(identity.levels, report.isv_svn, 'the quoting enclave')
}

function svnFinding(levels: readonly SvnLevel[], isv_svn: number, part: string): TcbFinding {
  const level = levels.find((one) => isv_svn >= one.isv_svn)
  if (level === undefined) throw new Refused(`${part} is below every TCB level`)
  return level.finding
}

export type PlatformPolicy = Pick<
  VerificationPolicy,
  'tcb_statuses' | 'advisories' | 'tcb_evaluation_min' | 'ppids'
>

/** Worst status of platform, TDX module and quoting enclave. @throws Refused when one is unknown or below every level. */
function platformStatus(genuine: GenuineQuote, collateral: OpenedCollateral): TcbFinding {
  const { quote, platform } = genuine
  const { tcb_info, qe_identity } = collateral
  // TD 1.5 states the versions at launch and the current ones; both count, as launch was under the old module.
  const versions = [quote.report.tee_tcb_svn, quote.report.tee_tcb_svn_15].filter((svn) => svn !== undefined)
  const findings = versions.flatMap((svn) => [
    platformFinding(tcb_info, platform, svn),
    moduleFinding(tcb_info, quote.report, svn),
  ])
  const qe = quotingEnclaveFinding(qe_identity, quote.qe_report)
  return combineFindings([qe, ...findings.filter((finding) => finding !== undefined)])
}

/** @throws Refused when the platform is less current than the policy demands */
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
  requireThat(
    evaluation >= (policy.tcb_evaluation_min ?? 0),
    'the TCB evaluation is older than the policy asks',
  )
  const ppid = toHex(genuine.platform.ppid)
  requireThat(policy.ppids?.includes(ppid) ?? true, 'the physical machine is not one the policy names')
  return finding
}
