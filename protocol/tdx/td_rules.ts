/**
 * States the rules that every trust domain and its TDX module must fulfil (Intel "TDX Module Base Architecture"). Clients and
 * the boot self-check share them: no machine opens an epoch that every client rejects.
 */
import { equalBytes, fromHex, isZero } from '../bytes'
import type { TdReport } from './quote'

/** Bit 28, SEPT_VE_DISABLE, and nothing else: no debugging, migration, performance monitoring or reserved bit. */
const TD_ATTRIBUTES = fromHex('0000001000000000', 8)!
const DEBUG_BITS = 0xff
const SEPT_VE_DISABLE_BYTE = 3
const SEPT_VE_DISABLE = 0x10
const MIGRATABLE = 0x20
const PERFMON_BYTE = 7
const PERFMON = 0x80
/** Byte of the TDX versions that holds the module's SVN; the next one is its major version. */
export const MODULE_SVN = 0
export const MODULE_MAJOR = 1

/** The first rule that the report breaks, as a sentence; undefined when it breaks none. */
export function tdFault(report: TdReport): string | undefined {
  const { td_attributes, mr_service_td_15, mr_signer_seam, seam_attributes } = report
  const faults = td_attributes[SEPT_VE_DISABLE_BYTE]!
  if ((td_attributes[0]! & DEBUG_BITS) !== 0) return 'the machine is under debug: the host reads its memory'
  if ((faults & SEPT_VE_DISABLE) === 0) return 'the host may inject memory faults (SEPT_VE_DISABLE is off)'
  if ((faults & MIGRATABLE) !== 0) return 'the host may move the machine with its keys (MIGRATABLE is on)'
  if ((td_attributes[PERFMON_BYTE]! & PERFMON) !== 0)
    return 'the machine exposes performance counters (PERFMON is on)'
  if (!equalBytes(td_attributes, TD_ATTRIBUTES)) return 'the machine has unexpected attributes'
  if (!isZero(mr_signer_seam)) return 'the TDX module is not signed by Intel'
  if (!isZero(seam_attributes)) return 'the TDX module has attributes, such as debugging'
  if (!isSameGeneration(report)) return 'the TDX module has another major version than at launch'
  if (mr_service_td_15 !== undefined && !isZero(mr_service_td_15))
    return 'a service TD is bound to the machine'
  return undefined
}

/** SVNs of different major versions cannot be compared, and no update of a running module crosses one. */
function isSameGeneration({ tee_tcb_svn, tee_tcb_svn_15 }: TdReport): boolean {
  return tee_tcb_svn_15 === undefined || tee_tcb_svn_15[MODULE_MAJOR] === tee_tcb_svn[MODULE_MAJOR]
}
