/** TD_QE identity version 2 of the imaginary quoting enclave (Intel PCS API v4, "Get TDX QE Identity"). */
import { QE_MR_SIGNER, QE_PROD_ID, QE_SVN } from './platform'
import { capitals, type Period, second } from './tcb_info'

export function qeIdentity(period: Period): unknown {
  return {
    id: 'TD_QE',
    version: 2,
    issueDate: second(period.this_update_ms),
    nextUpdate: second(period.next_update_ms),
    tcbEvaluationDataNumber: 18,
    miscselect: '00000000',
    miscselectMask: 'FFFFFFFF',
    attributes: '11000000000000000000000000000000',
    attributesMask: 'FBFFFFFFFFFFFFFF0000000000000000',
    mrsigner: capitals(QE_MR_SIGNER),
    isvprodid: QE_PROD_ID,
    tcbLevels: [{ tcb: { isvsvn: QE_SVN }, tcbDate: '2025-01-01T00:00:00Z', tcbStatus: 'UpToDate' }],
  }
}
