/** Reads TCB info and QE identity (Intel PCS API v4), finds the TCB level of platform, module and enclave, and judges it. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import type { PckPlatform } from '../../../protocol/tdx/collateral'
import { MODULE_MAJOR, MODULE_SVN, type QeReport, type TdReport } from '../../../protocol/tdx/quote'
import { JsonObject } from '../json_document'
import { TCB_STATUSES, type VerificationPolicy } from '../policy'
import { Refused, requireThat } from '../transcript'
import type { OpenedCollateral } from './collateral'
import type { GenuineQuote } from './genuine_quote'

/** Best first. */
const STATUSES = [...TCB_STATUSES, 'Revoked'] as const
export type TcbStatus = (typeof STATUSES)[number]

/** One matched level of a signed document. */
export type TcbFinding = { status: TcbStatus; tcb_date: string; advisories: readonly string[] }

function readTcbStatus(text: string): TcbStatus {
  const status = STATUSES.find((known) => known === text)
  if (status === undefined) throw new Refused('unknown TCB status')
  return status
}

const CONFIGURATION: readonly TcbStatus[] = ['ConfigurationNeeded', 'ConfigurationAndSWHardeningNeeded']

function worse(a: TcbStatus, b: TcbStatus): TcbStatus {
  const pair = [a, b]
  // An outdated part and a missing configuration are both reported.
  if (pair.includes('OutOfDate') && pair.some((status) => CONFIGURATION.includes(status)))
    return 'OutOfDateConfigurationNeeded'
  if (pair.includes('SWHardeningNeeded') && pair.includes('ConfigurationNeeded'))
    return 'ConfigurationAndSWHardeningNeeded'
  return STATUSES.indexOf(a) > STATUSES.indexOf(b) ? a : b
}

/** The worst of all findings, the oldest date, and every advisory once. */
export function combineFindings(findings: readonly [TcbFinding, ...TcbFinding[]]): TcbFinding {
  return findings.reduce((a, b) => ({
    status: worse(a.status, b.status),
    tcb_date: [a.tcb_date, b.tcb_date].sort()[0]!,
    advisories: [...new Set([...a.advisories, ...b.advisories])],
  }))
}

/** True when every bit that `mask` selects is in `value` as in `expected`, and `expected` has no other bit. */
export function matchesMasked(value: Uint8Array, mask: Uint8Array, expected: Uint8Array): boolean {
  if (value.length !== expected.length || mask.length !== expected.length) return false
  return value.every((byte, at) => (byte & mask[at]!) === expected[at])
}

type PlatformLevel = {
  /** 16 SGX component versions. */
  sgx: number[]
  pce_svn: number
  /** 16 TDX component versions. */
  tdx: number[]
  finding: TcbFinding
}
type ModuleSigner = { mr_signer: Uint8Array; attributes: Uint8Array; attributes_mask: Uint8Array }
type SvnLevel = { isv_svn: number; finding: TcbFinding }
type ModuleIdentity = ModuleSigner & { id: string; levels: SvnLevel[] }

/** TDX TCB info version 3 (Intel PCS API v4, "Get TDX TCB Info"). */
export type TcbInfo = {
  issued_ms: number
  next_update_ms: number
  fmspc: Uint8Array
  pce_id: Uint8Array
  evaluation_number: number
  /** Signer of TDX modules of major version 0. */
  module_signer: ModuleSigner
  /** Later major versions. */
  module_identities: ModuleIdentity[]
  /** Best first. */
  levels: PlatformLevel[]
}

const COMPONENTS = 16
/** Widths of one SGX or TDX component, and of other versions. */
const U8_MAX = 0xff
const U16_MAX = 0xffff

/** @throws Refused for any other document. */
export function readTcbInfo(text: string): TcbInfo {
  const document = JsonObject.parse(text, 'TCB info')
  requireThat(document.text('id') === 'TDX', 'TCB info is not for TDX')
  requireThat(document.integer('version') === 3, 'TCB info version is not 3')
  requireThat(document.integer('tcbType') === 0, 'TCB info type is unknown')
  const identities = document.has('tdxModuleIdentities') ? document.objects('tdxModuleIdentities') : []
  return {
    issued_ms: document.time('issueDate'),
    next_update_ms: document.time('nextUpdate'),
    fmspc: document.bytes('fmspc', 6),
    pce_id: document.bytes('pceId', 2),
    evaluation_number: document.integer('tcbEvaluationDataNumber'),
    module_signer: readSigner(document.object('tdxModule')),
    module_identities: identities.map((identity) => ({
      id: identity.text('id'),
      ...readSigner(identity),
      levels: readSvnLevels(identity),
    })),
    levels: document.objects('tcbLevels').map(readPlatformLevel),
  }
}

function readSigner(signer: JsonObject): ModuleSigner {
  return {
    mr_signer: signer.bytes('mrsigner', 48),
    attributes: signer.bytes('attributes', 8),
    attributes_mask: signer.bytes('attributesMask', 8),
  }
}

/** Levels of a document whose TCB is one ISV SVN, best first. */
function readSvnLevels(document: JsonObject): SvnLevel[] {
  return document.objects('tcbLevels').map((level) => ({
    isv_svn: level.object('tcb').integer('isvsvn', U16_MAX),
    finding: readFinding(level),
  }))
}

function readPlatformLevel(level: JsonObject): PlatformLevel {
  const tcb = level.object('tcb')
  const components = (field: string): number[] => {
    const svns = tcb.objects(field).map((component) => component.integer('svn', U8_MAX))
    requireThat(svns.length === COMPONENTS, 'a TCB level has not 16 components')
    return svns
  }
  return {
    sgx: components('sgxtcbcomponents'),
    pce_svn: tcb.integer('pcesvn', U16_MAX),
    tdx: components('tdxtcbcomponents'),
    finding: readFinding(level),
  }
}

function readFinding(level: JsonObject): TcbFinding {
  level.time('tcbDate')
  return {
    status: readTcbStatus(level.text('tcbStatus')),
    tcb_date: level.text('tcbDate'),
    advisories: level.texts('advisoryIDs'),
  }
}

/** Identity of Intel's TD quoting enclave, version 2 (Intel PCS API v4, "Get TDX QE Identity"). */
export type QeIdentity = {
  issued_ms: number
  next_update_ms: number
  evaluation_number: number
  misc_select: Uint8Array
  misc_select_mask: Uint8Array
  attributes: Uint8Array
  attributes_mask: Uint8Array
  mr_signer: Uint8Array
  isv_prod_id: number
  /** Best first. */
  levels: SvnLevel[]
}

/** @throws Refused for any other document. */
export function readQeIdentity(text: string): QeIdentity {
  const document = JsonObject.parse(text, 'QE identity')
  requireThat(document.text('id') === 'TD_QE', 'QE identity is not of the TD quoting enclave')
  requireThat(document.integer('version') === 2, 'QE identity version is not 2')
  return {
    issued_ms: document.time('issueDate'),
    next_update_ms: document.time('nextUpdate'),
    evaluation_number: document.integer('tcbEvaluationDataNumber'),
    misc_select: document.bytes('miscselect', 4),
    misc_select_mask: document.bytes('miscselectMask', 4),
    attributes: document.bytes('attributes', 16),
    attributes_mask: document.bytes('attributesMask', 16),
    mr_signer: document.bytes('mrsigner', 32),
    isv_prod_id: document.integer('isvprodid', U16_MAX),
    levels: readSvnLevels(document),
  }
}

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
