/**
 * What a dstack OS image of the "lite" kind says it measures to (dstack `measurement.tdx.cbor`, version 3), bound to the
 * image's hash: SHA-256 of its `sha256sum.txt`, which lists the document.
 */
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { decodeBase64 } from '../base64'
import { JsonObject } from '../json_document'
import { Refused, requireThat } from '../refused'
import { type CborMap, type CborValue, decodeCborMap } from './cbor'

export type ImageDocument = {
  /** 64 hex digits. */
  os_image_hash: string
  /** Bytes of RAM the host gave the machine; the registers confirm it. */
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
/** The one firmware layout whose events `expected_digests.ts` knows. */
const FIRMWARE = 'pre202505'

/** Undefined when the machine states no document. @throws Refused when it states a malformed or unbound one. */
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
