/** The primitive DER values that certificates and revocation lists hold. */
import { toHex } from '../../../protocol/bytes'
import { type DerReader, MalformedDer, TAG } from './der'

/** Dotted text of an object identifier. */
export function readOid(reader: DerReader): string {
  const bytes = reader.value(TAG.oid)
  const arcs: number[] = []
  let arc = 0
  let digits = 0
  for (const byte of bytes) {
    if (digits === 0 && byte === 0x80) throw new MalformedDer('object identifier is padded')
    if (++digits > 5) throw new MalformedDer('object identifier arc is too long')
    arc = arc * 128 + (byte & 0x7f)
    if ((byte & 0x80) !== 0) continue
    arcs.push(arc)
    arc = 0
    digits = 0
  }
  if (digits !== 0 || arcs.length === 0) throw new MalformedDer('object identifier is cut short')
  const first = arcs[0]!
  const root = Math.min(Math.floor(first / 40), 2)
  return [root, first - root * 40, ...arcs.slice(1)].join('.')
}

function minimalInteger(bytes: Uint8Array): Uint8Array {
  const [first, second] = bytes
  if (first === undefined) throw new MalformedDer('integer is empty')
  if ((first & 0x80) !== 0) throw new MalformedDer('integer is negative')
  if (first === 0 && second !== undefined && (second & 0x80) === 0)
    throw new MalformedDer('integer is padded')
  return bytes
}

/** Magnitude of a non-negative integer, without a leading zero byte. */
export function readMagnitude(reader: DerReader): Uint8Array {
  const bytes = minimalInteger(reader.value(TAG.integer))
  return bytes[0] === 0 && bytes.length > 1 ? bytes.subarray(1) : bytes
}

/** A non-negative integer below 2^32. */
export function readSmallInteger(reader: DerReader): number {
  const magnitude = readMagnitude(reader)
  if (magnitude.length > 4) throw new MalformedDer('integer is too large')
  return magnitude.reduce((value, byte) => value * 256 + byte, 0)
}

/** Hex of a positive serial number of at most 20 bytes (RFC 5280 section 4.1.2.2). */
export function readSerial(reader: DerReader): string {
  const magnitude = readMagnitude(reader)
  if (magnitude.length > 20) throw new MalformedDer('serial number is too long')
  return toHex(magnitude)
}

export function readBoolean(reader: DerReader): boolean {
  const [value, surplus] = reader.value(TAG.boolean)
  if (surplus !== undefined || (value !== 0 && value !== 0xff)) throw new MalformedDer('boolean')
  return value === 0xff
}

/** Content of a bit string of whole bytes. */
export function readBitString(reader: DerReader): Uint8Array {
  const bytes = reader.value(TAG.bit_string)
  if (bytes[0] !== 0) throw new MalformedDer('bit string is not of whole bytes')
  return bytes.subarray(1)
}

/** The named bits of a bit string; bit 0 is the highest of the first byte. */
export function readNamedBits(reader: DerReader): (bit: number) => boolean {
  const bytes = reader.value(TAG.bit_string)
  const unused = bytes[0]
  const last = bytes.at(-1)!
  if (unused === undefined || unused > 7 || (bytes.length === 1 && unused !== 0))
    throw new MalformedDer('bit string')
  if ((last & ((1 << unused) - 1)) !== 0 && bytes.length > 1) throw new MalformedDer('unused bits are set')
  return (bit) => ((bytes[1 + (bit >> 3)] ?? 0) & (0x80 >> (bit & 7))) !== 0
}

const TIMES: readonly [tag: number, form: RegExp][] = [
  [TAG.utc_time, /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/],
  [TAG.generalized_time, /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/],
]

/** Unix milliseconds of a UTCTime or GeneralizedTime in RFC 5280's only forms (section 4.1.2.5). */
export function readTime(reader: DerReader): number {
  for (const [tag, form] of TIMES) {
    if (reader.peek() !== tag) continue
    const match = form.exec(String.fromCharCode(...reader.value(tag)))
    if (match === null) throw new MalformedDer('time')
    const [year, month, day, hour, minute, second] = match.slice(1).map(Number)
    const full_year = tag === TAG.generalized_time ? year! : year! < 50 ? 2000 + year! : 1900 + year!
    const unix_ms = Date.UTC(full_year, month! - 1, day!, hour!, minute!, second!)
    const [, ...digits] = match
    const written = digits.join('').slice(-10)
    const canonical = new Date(unix_ms).toISOString().replace(/[-:T]|\.000Z/g, '')
    if (canonical.slice(4) !== written) throw new MalformedDer('time does not exist')
    return unix_ms
  }
  throw new MalformedDer('expected a time')
}
