/** The operating system is recomputed from the image's own document, on a real machine's answer. */

import { describe, expect, test } from 'bun:test'
import { MEMORY_RANGES_MAX } from '../../../client/limits'
import { checkOsImage } from '../../../client/verify/checks/measurements'
import type { VerificationCase } from '../../../client/verify/checks/verification_case'
import {
  isKnownMemorySize,
  requireImage,
  tdHobDigest,
} from '../../../client/verify/os_image/expected_digests'
import {
  decodeCborMap,
  type ImageDocument,
  readImageDocument,
} from '../../../client/verify/os_image/image_document'
import { concatBytes, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
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

type Cbor = number | string | Uint8Array | { [key: string]: Cbor }
function encodeCbor(value: Cbor): Uint8Array {
  const head = (major: number, length: number) =>
    length < 24 ? Uint8Array.of((major << 5) | length) : Uint8Array.of((major << 5) | 24, length)
  if (typeof value === 'number') return head(0, value)
  if (typeof value === 'string') return concatBytes(head(3, value.length), utf8(value))
  if (value instanceof Uint8Array) return concatBytes(head(2, value.length), value)
  const entries = Object.entries(value).flatMap(([key, inner]) => [encodeCbor(key), encodeCbor(inner)])
  return concatBytes(head(5, Object.keys(value).length), ...entries)
}
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

describe('the measurement document', () => {
  const digest = (fill: number) => new Uint8Array(48).fill(fill)
  const IMAGE = { kernel_authenticode: digest(3), cmdline_sha384: digest(4), initrd_sha384: digest(5) }
  const MRTD = { single_pass: digest(1), two_pass: digest(2) }
  const TDVF = { ovmf: 'pre202505', td_hob: Uint8Array.of(1, 1, 1, 0, 1), mrtd: MRTD }
  const DOCUMENT = { version: 3, image: IMAGE, tdvf: TDVF }
  const NAME = 'measurement.tdx.cbor'
  const listing = (document: Cbor, name = NAME) => `${toHex(sha256(encodeCbor(document)))}  ${name}\n`
  const read = (document: Cbor, checksums = listing(document), memory_size: unknown = 2 ** 31) =>
    readImageDocument(
      JSON.stringify({
        memory_size,
        tdx_measurement: { checksum_file: btoa(checksums), measurement: base64(encodeCbor(document)) },
      }),
    )
  test('every member is read', () => {
    expect(read(DOCUMENT)).toEqual({
      os_image_hash: toHex(sha256(utf8(listing(DOCUMENT)))),
      memory_size: 2 ** 31,
      mr_td_candidates: [digest(1), digest(2)],
      td_hob_witness: TDVF.td_hob,
      ...IMAGE,
    })
  })
  test('a member that is absent, of another type or width is refused', () => {
    const faulty: Cbor[] = [{ ...DOCUMENT, image: 1 }, { ...DOCUMENT, tdvf: '' }, { version: 3 }]
    for (const wrong of [1, 'x', digest(1).slice(1), new Uint8Array(49), {}]) {
      for (const name of Object.keys(IMAGE)) faulty.push({ ...DOCUMENT, image: { ...IMAGE, [name]: wrong } })
      for (const name of Object.keys(MRTD))
        faulty.push({ ...DOCUMENT, tdvf: { ...TDVF, mrtd: { ...MRTD, [name]: wrong } } })
    }
    for (const td_hob of [1, 'x', {}]) faulty.push({ ...DOCUMENT, tdvf: { ...TDVF, td_hob } })
    for (const document of faulty) expect(() => read(document)).toThrow(/document is malformed/)
    for (const version of [2, 4, '3']) expect(() => read({ ...DOCUMENT, version })).toThrow(/another version/)
    expect(() => read({ ...DOCUMENT, tdvf: { ...TDVF, ovmf: 'edk2' } })).toThrow(/firmware layout/)
    for (const memory_size of [-1, 0.5, '1', null, 2 ** 53])
      expect(() => read(DOCUMENT, listing(DOCUMENT), memory_size)).toThrow(/well formed memory_size/)
  })
  test('it is listed once, under its name, with its hash', () => {
    const line = listing(DOCUMENT)
    for (const checksums of ['', line + line, listing(DOCUMENT, 'other'), listing({}), listing({}) + line])
      expect(() => read(DOCUMENT, checksums)).toThrow(/does not list/)
    expect(read(DOCUMENT, listing({}, 'other') + line)).toBeDefined()
    expect(read(DOCUMENT, line.replace('  ', ' *'))).toBeDefined()
  })
})

test('the memory witness is whole, in order and of a bounded number of ranges', () => {
  const GIB = 2 ** 30
  /** Base page 0, list in page 1, then the ranges as start and length in pages. */
  const witness = (...ranges: number[]) => Uint8Array.of(0, 1, ranges.length / 2, ...ranges)
  const of = (count: number) => witness(...Array.from({ length: count }, (_, at) => [at, 1]).flat())
  expect(tdHobDigest(witness(4, 1, 6, 2), 2 * GIB)).toHaveLength(48)
  // Order and empty ranges change nothing, anything else does.
  expect(tdHobDigest(witness(6, 2, 4, 1), 2 * GIB)).toEqual(tdHobDigest(witness(4, 1, 6, 2), 2 * GIB))
  expect(tdHobDigest(witness(4, 1, 6, 2, 9, 0), 2 * GIB)).toEqual(tdHobDigest(witness(4, 1, 6, 2), 2 * GIB))
  const digests = [
    tdHobDigest(witness(4, 1, 6, 2), 2 * GIB),
    tdHobDigest(witness(4, 1, 6, 1), 2 * GIB),
    tdHobDigest(witness(4, 1, 7, 2), 2 * GIB),
    tdHobDigest(witness(4, 1, 6, 2), 3 * GIB),
    tdHobDigest(witness(4, 1, 6, 2), 0xb000_0000),
    tdHobDigest(witness(4, 1, 6, 2), 0xb000_0000 - 4096),
  ]
  expect(new Set(digests.map(toHex)).size).toBe(digests.length)
  expect(tdHobDigest(of(MEMORY_RANGES_MAX), 2 * GIB)).toHaveLength(48)
  const malformed: Uint8Array[] = [Uint8Array.of(), Uint8Array.of(0, 1), witness(), of(MEMORY_RANGES_MAX + 1)]
  malformed.push(concatBytes(witness(4, 1), Uint8Array.of(0)), witness(4, 1).slice(0, -1))
  malformed.push(Uint8Array.of(...Array(7).fill(0x80), 0, 1, 1, 4, 1))
  for (const one of malformed) expect(() => tdHobDigest(one, 2 * GIB)).toThrow(/witness is malformed/)
  expect(() => tdHobDigest(witness(4, 2, 5, 1), 2 * GIB)).toThrow(/overlap/)
  expect(() => tdHobDigest(witness(4, 2), 5 * 4096)).toThrow(/overlap/)
})

test('the kernel measurement is known for the sizes at which QEMU places the disk at one address', () => {
  for (const memory_size of [0x8000_0000, 0xb000_0000, 2 ** 40])
    expect(isKnownMemorySize(memory_size)).toBe(true)
  for (const memory_size of [0, 0x7fff_ffff, 0x8000_0001, 0xafff_ffff])
    expect(isKnownMemorySize(memory_size)).toBe(false)
})

test('a machine that describes no image has no document', () => {
  expect(readImageDocument('{"memory_size":1}')).toBeUndefined()
  expect(() => readImageDocument('no json')).toThrow()
})

test('CBOR in another than the shortest form, with surplus bytes, repeated keys or other types is refused', () => {
  const map = (...bytes: number[]) => decodeCborMap(Uint8Array.from(bytes))
  expect(map(0xa1, 0x61, 0x61, 0x18, 0x18).get('a')).toBe(24)
  expect(map(0xa1, 0x61, 0x61, 0x19, 0x01, 0x02).get('a')).toBe(0x0102)
  expect(map(0xa1, 0x61, 0x61, 0x1a, 0x01, 0x02, 0x03, 0x04).get('a')).toBe(0x01020304)
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
