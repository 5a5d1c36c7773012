/** Check 1.3: platform, TDX module and quoting enclave are as current as the policy asks. */
import { requirePlatform } from '../tdx/judge_platform'
import { established, type RunCheck } from './verification_case'

export const checkPlatform: RunCheck = (verification) => {
  const genuine = established(verification, 'genuine')
  const collateral = established(verification, 'collateral')
  const { status, tcb_date, advisories } = requirePlatform(genuine, collateral, verification.policy)
  return {
    tcb_status: status,
    tcb_date,
    advisories: advisories.join(' ') || 'none',
    tcb_evaluation_number: String(collateral.tcb_info.evaluation_number),
  }
}
