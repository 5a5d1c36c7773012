/** Whether a machine booted exactly the image its own description names, and that image is an accepted one. */
import { equalBytes } from '../../../protocol/bytes'
import type { BootEvent } from '../../../protocol/event_log'
import { requireThat } from '../refused'
import { expectedDigests } from './expected_digests'
import type { ImageDocument } from './image_document'
import { isKnownMemorySize } from './td_hob'

/**
 * @param events a log whose replay gave the quote's registers.
 * @throws Refused when MRTD or any event of RTMR0, RTMR1 or RTMR2 is not the image's.
 */
export function requireImage(image: ImageDocument, mr_td: Uint8Array, events: readonly BootEvent[]): void {
  requireThat(
    isKnownMemorySize(image.memory_size),
    'the kernel measurement of this memory size is not known: pin its registers',
  )
  requireThat(
    image.mr_td_candidates.some((candidate) => equalBytes(candidate, mr_td)),
    'the firmware (MRTD) is not the one of the image',
  )
  for (const [imr, expected] of expectedDigests(image).entries()) {
    const measured = events.filter((event) => event.imr === imr)
    const same =
      measured.length === expected.length &&
      expected.every((digest, at) => digest === undefined || equalBytes(digest, measured[at]!.digest))
    requireThat(same, `the boot events of RTMR${imr} are not those of the image`)
  }
}
