/** Reads the measurement document of an OS image and its deterministic CBOR. */
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { CBOR_DEPTH_MAX } from '../../limits'
import { decodeBase64, JsonObject } from '../json_document'
import { Refused, requireThat } from '../transcript'

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
/** The firmware layout whose events `expected_digests.ts` computes. */
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
