/** Check 4.1: the firmware, kernel, command line and initial disk are those of an operating system the policy names. */
import { toHex } from '../../../protocol/bytes'
import { Refused } from '../refused'
import { established, type RunCheck, Skipped } from './verification_case'

export const checkOsImage: RunCheck = (verification) => {
  const { registers, os_image_hashes } = verification.policy
  const { mr_td, rtmr } = established(verification, 'genuine').quote.report
  established(verification, 'events')
  const [mrtd, rtmr0, rtmr1, rtmr2] = [mr_td, ...rtmr].map(toHex)
  if (registers.length === 0 && os_image_hashes.length === 0)
    throw new Skipped('the policy names no operating system')
  const known = registers.some(
    (tuple) => tuple.mrtd === mrtd && tuple.rtmr0 === rtmr0 && tuple.rtmr1 === rtmr1 && tuple.rtmr2 === rtmr2,
  )
  if (!known) throw new Refused('the registers are of no operating system the policy names')
  return { mrtd: mrtd!, rtmr0: rtmr0!, rtmr1: rtmr1!, rtmr2: rtmr2! }
}
