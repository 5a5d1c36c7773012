/** Reads TCB info and QE identity (Intel PCS API v4) and combines TCB statuses; signatures are checked elsewhere. */
import { JsonObject } from '../json_document'
import { TCB_STATUSES } from '../policy'
import { Refused, requireThat } from '../transcript'

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
export type ModuleSigner = { mr_signer: Uint8Array; attributes: Uint8Array; attributes_mask: Uint8Array }
export type SvnLevel = { isv_svn: number; finding: TcbFinding }
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
