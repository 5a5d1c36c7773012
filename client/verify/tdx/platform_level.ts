/** The TCB level of platform, TDX module and quoting enclave (Intel PCS API v4, "TCB level selection"). */
import { equalBytes, toHex } from '../../../protocol/bytes'
import type { QeReport, TdReport } from '../../../protocol/quote'
import { Refused, requireThat } from '../refused'
import { matchesMasked } from './masked'
import type { PckPlatform } from './pck_extension'
import type { QeIdentity } from './qe_identity'
import type { ModuleSigner, SvnLevel, TcbInfo } from './tcb_info'
import type { TcbFinding } from './tcb_status'

/** Byte of the TDX versions that holds the module's SVN; the next one is its major version. */
const MODULE_SVN = 0
const MODULE_MAJOR = 1

/**
 * First level whose every component the platform reaches. From major version 1 on the module's own two bytes are
 * judged by its identity instead.
 */
export function platformFinding(
  tcb_info: TcbInfo,
  platform: PckPlatform,
  tee_tcb_svn: Uint8Array,
): TcbFinding {
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

/** Signer, attributes and level of the TDX module; none for major version 0, which the platform level covers. */
export function moduleFinding(
  tcb_info: TcbInfo,
  report: TdReport,
  tee_tcb_svn: Uint8Array,
): TcbFinding | undefined {
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

/** Identity and level of the quoting enclave. */
export function quotingEnclaveFinding(identity: QeIdentity, report: QeReport): TcbFinding {
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
