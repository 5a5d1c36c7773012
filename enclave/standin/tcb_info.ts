/** TDX TCB info version 3 of the imaginary platform (Intel PCS API v4, "Get TDX TCB Info"). */
import { toHex } from '../../protocol/bytes'
import { CPU_SVN, FMSPC, PCE_ID, PCE_SVN, TEE_TCB_SVN, TEE_TCB_SVN_OUT_OF_DATE } from './platform'

export type Period = { this_update_ms: number; next_update_ms: number }
/** Intel writes hex in capitals and times in whole seconds. */
export const capitals = (bytes: Uint8Array): string => toHex(bytes).toUpperCase()
export const second = (unix_ms: number): string => `${new Date(unix_ms).toISOString().slice(0, 19)}Z`

const TCB_DATE = '2025-01-01T00:00:00Z'
const OLD_TCB_DATE = '2023-01-01T00:00:00Z'
const ADVISORY = 'DEVELOPMENT-ONLY-SA-00001'
const MODULE_SIGNER = {
  mrsigner: '00'.repeat(48),
  attributes: '0000000000000000',
  attributesMask: 'FFFFFFFFFFFFFFFF',
}

export function tcbInfo(period: Period): unknown {
  return {
    id: 'TDX',
    version: 3,
    issueDate: second(period.this_update_ms),
    nextUpdate: second(period.next_update_ms),
    fmspc: capitals(FMSPC),
    pceId: capitals(PCE_ID),
    tcbType: 0,
    tcbEvaluationDataNumber: 18,
    tdxModule: MODULE_SIGNER,
    tdxModuleIdentities: [moduleIdentity('TDX_03', 3), moduleIdentity('TDX_01', 6)],
    tcbLevels: [
      { tcb: platformTcb(TEE_TCB_SVN), tcbDate: TCB_DATE, tcbStatus: 'UpToDate' },
      {
        tcb: platformTcb(TEE_TCB_SVN_OUT_OF_DATE),
        tcbDate: OLD_TCB_DATE,
        tcbStatus: 'OutOfDate',
        advisoryIDs: [ADVISORY],
      },
    ],
  }
}

function moduleIdentity(id: string, isvsvn: number): unknown {
  return {
    id,
    ...MODULE_SIGNER,
    tcbLevels: [
      { tcb: { isvsvn }, tcbDate: TCB_DATE, tcbStatus: 'UpToDate' },
      { tcb: { isvsvn: 2 }, tcbDate: OLD_TCB_DATE, tcbStatus: 'OutOfDate', advisoryIDs: [ADVISORY] },
    ],
  }
}

/** Component 1 of the TDX versions is the module's major version and 0 here: module identities judge the module. */
function platformTcb(tee_tcb_svn: Uint8Array): unknown {
  const tdx = Array.from(tee_tcb_svn, (svn, index) => ({ svn: index === 1 ? 0 : svn }))
  return {
    sgxtcbcomponents: Array.from(CPU_SVN, (svn) => ({ svn })),
    pcesvn: PCE_SVN,
    tdxtcbcomponents: tdx,
  }
}
