/** The operating system is recomputed from the image's own document, on a real machine's answer. */

import { describe, expect, test } from 'bun:test'
import { checkOsImage } from '../../../client/verify/checks/os_image'
import type { VerificationCase } from '../../../client/verify/checks/verification_case'
import { requireImage } from '../../../client/verify/os_image/expected_digests'
import {
  decodeCborMap,
  type ImageDocument,
  readImageDocument,
} from '../../../client/verify/os_image/image_document'
import { toHex } from '../../../protocol/bytes'
import { parseEventLog, replayRegisters } from '../../../protocol/tdx/event_log'
import { parseQuote } from '../../../protocol/tdx/quote'
import { HAVE_QUOTES, readAnswer } from '../../kit/verify/real_quotes'

const OS_IMAGE_HASH = 'e6f5cfec20c02e7b97baa213d0f718020b55e040172d90ccbcb946d56c8b09db'

function realMachine() {
  const { quote, event_log, vm_config } = readAnswer('dstack-0.6-lite')
  const { report } = parseQuote(new Uint8Array(Buffer.from(quote, 'hex')))
  return { report, events: parseEventLog(event_log), vm_config, image: readImageDocument(vm_config)! }
}

describe.skipIf(!HAVE_QUOTES)('a real machine of dstack 0.6', () => {
  test('its log leads to its registers, and its image is recomputed from its own document', () => {
    const { report, events, image } = realMachine()
    expect(replayRegisters(events).map(toHex)).toEqual(report.rtmr.map(toHex))
    expect(image.os_image_hash).toBe(OS_IMAGE_HASH)
    expect(() => requireImage(image, report.mr_td, events)).not.toThrow()
  })
  test('another firmware, kernel, command line, initial disk or memory size is refused', () => {
    const { report, events, image } = realMachine()
    const other = new Uint8Array(48).fill(1)
    const changes: Partial<ImageDocument>[] = [
      { mr_td_candidates: [other, other] },
      { kernel_authenticode: other },
      { cmdline_sha384: other },
      { initrd_sha384: other },
      { memory_size: image.memory_size * 2 },
      { memory_size: image.memory_size - 4096 },
    ]
    for (const change of changes)
      expect(() => requireImage({ ...image, ...change }, report.mr_td, events)).toThrow(
        /not those|not the one|not known/,
      )
    for (let left_out = 0; left_out < events.length; left_out++) {
      if (events[left_out]!.imr === 3) continue
      expect(() => requireImage(image, report.mr_td, events.toSpliced(left_out, 1))).toThrow(/not those/)
    }
  })
  test('check 4.1 recomputes the image that the policy names, and no other', async () => {
    const { report, events, vm_config } = realMachine()
    const judge = async (policy: object, known = events) =>
      checkOsImage({
        policy,
        bundle: { attestation: { vm_config } },
        established: { genuine: { quote: { report } }, events: known },
      } as unknown as VerificationCase)
    const named = { os_image_hashes: ['00'.repeat(32), OS_IMAGE_HASH] }
    expect((await judge(named))['by']).toBe('recomputation')
    await expect(judge({ os_image_hashes: ['00'.repeat(32)] })).rejects.toThrow(/is not one the policy names/)
    await expect(judge(named, events.slice(1))).rejects.toThrow(/RTMR0 are not those of the image/)
    const [mrtd, rtmr0, rtmr1, rtmr2] = [report.mr_td, ...report.rtmr].map(toHex)
    const pinned = { mrtd, rtmr0, rtmr1, rtmr2, xfam: toHex(report.xfam) }
    const registers = [{ ...pinned, rtmr0: '00'.repeat(48) }, pinned]
    expect((await judge({ registers }))['by']).toBe('pinned registers')
    const others = Object.keys(pinned).map((name) => ({
      ...pinned,
      [name]: '00'.repeat(name === 'xfam' ? 8 : 48),
    }))
    await expect(judge({ registers: others })).rejects.toThrow(/no operating system the policy names/)
    expect((await judge({ registers: others, ...named }))['by']).toBe('recomputation')
    await expect(judge({})).rejects.toThrow(/names no operating system/)
  })
  test('a document that its checksum file does not list is refused', () => {
    const config = JSON.parse(realMachine().vm_config)
    const measurement = Buffer.from(config.tdx_measurement.measurement, 'base64')
    measurement[measurement.length - 1]! ^= 1
    config.tdx_measurement.measurement = measurement.toString('base64')
    expect(() => readImageDocument(JSON.stringify(config))).toThrow(/does not list/)
  })
  test('another checksum file is another image', () => {
    const config = JSON.parse(realMachine().vm_config)
    const checksums = Buffer.from(config.tdx_measurement.checksum_file, 'base64').toString()
    config.tdx_measurement.checksum_file = btoa(`${checksums}${'0'.repeat(64)}  more\n`)
    expect(readImageDocument(JSON.stringify(config))!.os_image_hash).not.toBe(OS_IMAGE_HASH)
  })
})

test('a machine that describes no image has no document', () => {
  expect(readImageDocument('{"memory_size":1}')).toBeUndefined()
  expect(() => readImageDocument('no json')).toThrow()
})

test('CBOR in another than the shortest form, with surplus bytes, repeated keys or other types is refused', () => {
  const map = (...bytes: number[]) => decodeCborMap(Uint8Array.from(bytes))
  expect(map(0xa1, 0x61, 0x61, 0x18, 0x18).get('a')).toBe(24)
  for (const bytes of [
    [],
    [0xa0, 0x00],
    [0x01],
    [0xa1, 0x61, 0x61],
    [0xa1, 0x61, 0x61, 0x18, 0x17],
    [0xa1, 0x61, 0x61, 0x19, 0x00, 0xff],
    [0xa2, 0x61, 0x61, 0x01, 0x61, 0x61, 0x01],
    [0xa1, 0x01, 0x01],
    [0xa1, 0x61, 0x61, 0xf6],
    [0xbf, 0xff],
    [0xa1, 0x61, 0xff, 0x01],
    [0xa1, 0x61, 0x61, 0x5a, 0xff, 0xff, 0xff, 0xff],
  ])
    expect(() => map(...bytes)).toThrow(/malformed/)
})
