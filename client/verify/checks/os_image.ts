/**
 * Check 4.1: firmware, kernel, command line and initial disk are those of an operating system that the policy names,
 * recomputed from the image's own document or compared with pinned registers.
 */
import { toHex } from '../../../protocol/bytes'
import { requireImage } from '../os_image/expected_digests'
import { readImageDocument } from '../os_image/image_document'
import { Refused, requireThat } from '../transcript'
import { type CheckValues, established, type RunMachineCheck, Skipped } from './verification_case'

export const checkOsImage: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const { mr_td, rtmr, xfam } = established(verification, 'genuine').quote.report
  const events = established(verification, 'events')
  const { registers: tuples = [], os_image_hashes } = policy
  if (policy.registers === undefined && os_image_hashes === undefined) throw new Skipped('os_image_unpinned')
  const [mrtd, rtmr0, rtmr1, rtmr2] = [mr_td, ...rtmr].map(toHex)
  const registers: CheckValues = { mrtd: mrtd!, rtmr0: rtmr0!, rtmr1: rtmr1!, rtmr2: rtmr2! }
  const machine: CheckValues = { ...registers, xfam: toHex(xfam) }
  const pinned = tuples.some((tuple) =>
    Object.entries(tuple).every(([name, value]) => machine[name] === value),
  )
  if (pinned) return { ...registers, by: 'pinned registers' }
  if (os_image_hashes === undefined)
    throw new Refused('the registers are of no operating system the policy names')
  const image = readImageDocument(bundle.attestation.vm_config)
  if (image === undefined) throw new Refused('the machine does not describe its image: pin its registers')
  requireThat(
    os_image_hashes.includes(image.os_image_hash),
    `OS image ${image.os_image_hash} is not one the policy names`,
  )
  requireImage(image, mr_td, events)
  const memory_size = String(image.memory_size)
  return { ...registers, os_image_hash: image.os_image_hash, memory_size, by: 'recomputation' }
}
