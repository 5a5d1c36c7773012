/** Computes the boot digests of an OS image and checks that a machine booted exactly that image. */

import { sha384 } from '@noble/hashes/sha2.js'
import { concatBytes, equalBytes, fromHex, u64Le, utf8 } from '../../../protocol/bytes'
import type { BootEvent } from '../../../protocol/tdx/event_log'
import { requireThat } from '../transcript'
import type { ImageDocument } from './image_document'
import { isKnownMemorySize, tdHobDigest } from './td_hob'

/** Digests of one register's events in order; undefined accepts any. */
type ExpectedDigests = readonly (Uint8Array | undefined)[]

/** Configuration volume and `Boot0000` of this firmware (OVMF before 202505). */
const CONFIGURATION_VOLUME = fromHex(
  '344bc51c980ba621aaa00da3ed7436f7d6e549197dfe699515dfa2c6583d95e6412af21c097d473155875ffd561d6790',
  48,
)!
const BOOT_0000 = fromHex(
  '23ada07f5261f12f34a0bd8e46760962d6b4d576a416f1fea1c64bc656b1d28eacf7047ae6e967c58fd2a98bfa74c298',
  48,
)!
/** EFI_GLOBAL_VARIABLE and EFI_IMAGE_SECURITY_DATABASE as laid out in memory. */
const GLOBAL_VARIABLE = fromHex('61dfe48bca93d211aa0d00e098032b8c', 16)!
const SECURITY_DATABASE = fromHex('cbb219d73a3d9645a3bcdad00e67656f', 16)!
const SEPARATOR = sha384(new Uint8Array(4))
const BOOT_ORDER = sha384(new Uint8Array(2))
const ANY = undefined

/**
 * The events by which firmware and kernel of an image extend RTMR0, RTMR1 and RTMR2 in a dstack boot. The three ACPI tables
 * depend on the host and accept any digest: the guest kernel denies their code access to private memory.
 */
function expectedDigests(image: ImageDocument): readonly [ExpectedDigests, ExpectedDigests, ExpectedDigests] {
  const rtmr0 = [
    tdHobDigest(image.td_hob_witness, image.memory_size),
    CONFIGURATION_VOLUME,
    emptyVariable(GLOBAL_VARIABLE, 'SecureBoot'),
    emptyVariable(GLOBAL_VARIABLE, 'PK'),
    emptyVariable(GLOBAL_VARIABLE, 'KEK'),
    emptyVariable(SECURITY_DATABASE, 'db'),
    emptyVariable(SECURITY_DATABASE, 'dbx'),
    SEPARATOR,
    ANY,
    ANY,
    ANY,
    BOOT_ORDER,
    BOOT_0000,
  ]
  const rtmr1 = [
    image.kernel_authenticode,
    sha384(utf8('Calling EFI Application from Boot Option')),
    SEPARATOR,
    sha384(utf8('Exit Boot Services Invocation')),
    sha384(utf8('Exit Boot Services Returned with Success')),
  ]
  return [rtmr0, rtmr1, [image.cmdline_sha384, image.initrd_sha384]]
}

/** UEFI_VARIABLE_DATA of a variable without content (TCG PC Client Platform Firmware Profile, section 10.2.6). */
function emptyVariable(vendor: Uint8Array, name: string): Uint8Array {
  const text = new Uint8Array(name.length * 2)
  for (let at = 0; at < name.length; at++) text[2 * at] = name.charCodeAt(at)
  return sha384(concatBytes(vendor, u64Le(name.length), u64Le(0), text))
}

/**
 * Whether a machine booted exactly this image.
 * @param events a log that replays to the quote's registers
 * @throws Refused when MRTD or an event of RTMR0, RTMR1 or RTMR2 is not the image's
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
