/** Reads the measurement document of an OS image, computes its boot digests and checks that a machine booted that image. */

import { sha384 } from '@noble/hashes/sha2.js'
import { concatBytes, equalBytes, fromHex, toHex, u64Le, utf8 } from '../../protocol/bytes'
import { struct, u16, u32, uint, zeros } from '../../protocol/codec'
import { sha256 } from '../../protocol/sha256'
import type { BootEvent } from '../../protocol/tdx/event_log'
import { CBOR_DEPTH_MAX, MEMORY_RANGES_MAX } from '../limits'
import { decodeBase64, JsonObject } from './json_document'
import { Refused, requireThat } from './transcript'

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

const PAGE = 0x1000
/** The ranges around the PCI hole, and the least size at which QEMU splits memory. */
const LOW_MEMORY = 0x8000_0000
const HIGH_MEMORY_FROM = 0x1_0000_0000
const SPLIT_FROM = 0xb000_0000
const SYSTEM_MEMORY = 0
const UNACCEPTED_MEMORY = 7
/** Present, initialised, tested. */
const ATTRIBUTES = 7

/** The kernel's measured header depends on the memory size, by which QEMU places the initial disk, except for these sizes. */
export function isKnownMemorySize(memory_size: number): boolean {
  return memory_size === LOW_MEMORY || memory_size >= SPLIT_FROM
}

type Range = { start: number; end: number }

/**
 * SHA-384 of the list for a machine of `memory_size` bytes.
 * @param witness base page, page of the list and accepted page ranges (relative to the base), each a varint.
 */
export function tdHobDigest(witness: Uint8Array, memory_size: number): Uint8Array {
  const { hob_address, accepted } = readWitness(witness)
  const resources: Uint8Array[] = []
  let cursor = 0
  for (const { start, end } of accepted) {
    requireThat(start >= cursor && end <= memory_size, 'the measured memory ranges overlap')
    if (start > cursor) resources.push(resourceHob(UNACCEPTED_MEMORY, cursor, start - cursor))
    resources.push(resourceHob(SYSTEM_MEMORY, start, end - start))
    cursor = end
  }
  if (memory_size >= SPLIT_FROM) {
    resources.push(resourceHob(UNACCEPTED_MEMORY, cursor, LOW_MEMORY - cursor))
    resources.push(resourceHob(UNACCEPTED_MEMORY, HIGH_MEMORY_FROM, memory_size - LOW_MEMORY))
  } else resources.push(resourceHob(UNACCEPTED_MEMORY, cursor, memory_size - cursor))
  const list = concatBytes(...resources)
  const end_of_list = hob_address + HANDOFF.size! + list.length + END_BYTES
  return sha384(concatBytes(handoffHob(end_of_list), list))
}

function readWitness(witness: Uint8Array): { hob_address: number; accepted: Range[] } {
  let at = 0
  const next = (): number => {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = witness[at++]
      if (byte === undefined || scale > 2 ** 35) throw new Refused('the memory witness is malformed')
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
  }
  const base = next()
  const hob_address = (base + next()) * PAGE
  const count = next()
  requireThat(count > 0 && count <= MEMORY_RANGES_MAX, 'the memory witness is malformed')
  const accepted = Array.from({ length: count }, () => {
    const start = (base + next()) * PAGE
    return { start, end: start + next() * PAGE }
  })
  requireThat(at === witness.length, 'the memory witness is malformed')
  const ranges = accepted.filter(({ start, end }) => end > start)
  return { hob_address, accepted: ranges.sort((a, b) => a.start - b.start) }
}

const HANDOFF = struct({
  type: u16,
  bytes: u16,
  reserved: zeros(4),
  version: u32,
  unused: zeros(36),
  end_of_list: uint,
})
const RESOURCE = struct({
  type: u16,
  bytes: u16,
  reserved: zeros(4),
  owner: zeros(16),
  resource: u32,
  attributes: u32,
  start: uint,
  length: uint,
})
const END_BYTES = 8

function handoffHob(end_of_list: number): Uint8Array {
  return HANDOFF.encode({ type: 1, bytes: HANDOFF.size!, version: 9, end_of_list })
}

function resourceHob(resource: number, start: number, length: number): Uint8Array {
  return RESOURCE.encode({ type: 3, bytes: RESOURCE.size!, resource, attributes: ATTRIBUTES, start, length })
}

/** Deterministic CBOR (RFC 8949 section 4.2): the types of a measurement document. */
type CborValue = number | string | Uint8Array | CborMap
type CborMap = ReadonlyMap<string, CborValue>

const MAJOR = { unsigned: 0, bytes: 2, text: 3, map: 5 } as const
const DECODER = new TextDecoder('utf-8', { fatal: true })

/** @throws Refused unless the bytes are exactly one map with text keys. */
export function decodeCborMap(bytes: Uint8Array): CborMap {
  const cursor = { bytes, at: 0 }
  const value = readValue(cursor, 0)
  if (!(value instanceof Map) || cursor.at !== bytes.length) throw malformed()
  return value
}

type Cursor = { bytes: Uint8Array; at: number }
const malformed = (): Refused => new Refused('the measurement document is malformed')

function readValue(cursor: Cursor, depth: number): CborValue {
  const [major, argument] = readHead(cursor)
  if (major === MAJOR.unsigned) return argument
  if (major === MAJOR.bytes) return take(cursor, argument).slice()
  if (major === MAJOR.text) return readText(cursor, argument)
  if (major !== MAJOR.map || depth === CBOR_DEPTH_MAX) throw malformed()
  const map = new Map<string, CborValue>()
  for (let entry = 0; entry < argument; entry++) {
    const key = readValue(cursor, depth + 1)
    if (typeof key !== 'string' || map.has(key)) throw malformed()
    map.set(key, readValue(cursor, depth + 1))
  }
  return map
}

/** Major type and argument, in the shortest form. */
function readHead(cursor: Cursor): [major: number, argument: number] {
  const first = take(cursor, 1)[0]!
  const [major, info] = [first >> 5, first & 0x1f]
  if (info < 24) return [major, info]
  const width = { 24: 1, 25: 2, 26: 4 }[info]
  if (width === undefined) throw malformed()
  const argument = take(cursor, width).reduce((value, byte) => value * 256 + byte, 0)
  if (argument < (width === 1 ? 24 : 256 ** (width / 2))) throw malformed()
  return [major, argument]
}

function readText(cursor: Cursor, length: number): string {
  try {
    return DECODER.decode(take(cursor, length))
  } catch (error) {
    if (error instanceof TypeError) throw malformed()
    throw error
  }
}

function take(cursor: Cursor, length: number): Uint8Array {
  const from = cursor.at
  cursor.at += length
  if (cursor.at > cursor.bytes.length) throw malformed()
  return cursor.bytes.subarray(from, cursor.at)
}

/**
 * The measurements that a dstack OS image of the "lite" kind states (dstack `measurement.tdx.cbor`, version 3). The image's
 * hash is the SHA-256 of its `sha256sum.txt`, which lists the document.
 */
export type ImageDocument = {
  /** 64 hex digits. */
  os_image_hash: string
  /** Bytes of RAM, as the host states them; the registers confirm it. */
  memory_size: number
  /** The two orders in which QEMU may add the firmware's pages, 48 bytes each. */
  mr_td_candidates: [Uint8Array, Uint8Array]
  td_hob_witness: Uint8Array
  kernel_authenticode: Uint8Array
  cmdline_sha384: Uint8Array
  initrd_sha384: Uint8Array
}

const DOCUMENT_NAME = 'measurement.tdx.cbor'
const VERSION = 3
/** The firmware layout whose events are computed here. */
const FIRMWARE = 'pre202505'

/** Undefined when the machine states no document. @throws Refused for a malformed or unlisted one */
export function readImageDocument(vm_config: string): ImageDocument | undefined {
  const config = JsonObject.parse(vm_config, 'vm_config')
  if (!config.has('tdx_measurement')) return undefined
  const stated = config.object('tdx_measurement')
  const checksums = decodeBase64(stated.text('checksum_file'))
  const measurement = decodeBase64(stated.text('measurement'))
  requireListed(checksums, measurement)
  const root = decodeCborMap(measurement)
  requireThat(root.get('version') === VERSION, 'the measurement document is of another version')
  const [image, tdvf] = [mapAt(root, 'image'), mapAt(root, 'tdvf')]
  const mrtd = mapAt(tdvf, 'mrtd')
  requireThat(tdvf.get('ovmf') === FIRMWARE, 'the image has a firmware layout that is not known')
  return {
    os_image_hash: toHex(sha256(checksums)),
    memory_size: config.safeInteger('memory_size'),
    mr_td_candidates: [digestAt(mrtd, 'single_pass'), digestAt(mrtd, 'two_pass')],
    td_hob_witness: bytesOf(tdvf.get('td_hob')),
    kernel_authenticode: digestAt(image, 'kernel_authenticode'),
    cmdline_sha384: digestAt(image, 'cmdline_sha384'),
    initrd_sha384: digestAt(image, 'initrd_sha384'),
  }
}

function requireListed(checksums: Uint8Array, measurement: Uint8Array): void {
  const lines = new TextDecoder().decode(checksums).split('\n')
  const listed = lines.flatMap((line) => /^([0-9a-f]{64}) [ *](.+)$/.exec(line)?.slice(1) ?? [])
  const hashes = listed.filter((_, at) => at % 2 === 0 && listed[at + 1] === DOCUMENT_NAME)
  requireThat(
    hashes.length === 1 && hashes[0] === toHex(sha256(measurement)),
    'the image does not list its measurement document',
  )
}

function mapAt(map: CborMap, key: string): CborMap {
  const value = map.get(key)
  if (!(value instanceof Map)) throw new Refused('the measurement document is malformed')
  return value
}

function bytesOf(value: CborValue | undefined): Uint8Array {
  if (!(value instanceof Uint8Array)) throw new Refused('the measurement document is malformed')
  return value
}

function digestAt(map: CborMap, key: string): Uint8Array {
  const digest = bytesOf(map.get(key))
  requireThat(digest.length === 48, 'the measurement document is malformed')
  return digest
}
