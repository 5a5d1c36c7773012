/** Check 1.4: the trust domain runs without debugging and without a service TD. */
import { toHex } from '../../../protocol/bytes'
import { requireMachine } from '../tdx/require_machine'
import { established, type RunCheck } from './verification_case'

export const checkMachine: RunCheck = (verification) => {
  const { report } = established(verification, 'genuine').quote
  requireMachine(report)
  return { td_attributes: toHex(report.td_attributes), xfam: toHex(report.xfam) }
}
