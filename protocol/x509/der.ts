/** Reads strict DER (ITU-T X.690 section 10): one-byte tags, definite minimal lengths, no surplus bytes. */
import { concatBytes, toHex } from '../bytes'
import { DER_LENGTH_BYTES_MAX } from '../limits'
import { Refused } from '../tacit_error'

/** The bytes are not the expected DER. */
export class MalformedDer extends Refused {
  override readonly name = 'MalformedDer'
}

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bit_string: 0x03,
  octet_string: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  utc_time: 0x17,
  generalized_time: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const

/** Context-specific constructed tag, as `[number]` in ASN.1. */
export const context = (number: number): number => 0xa0 | number

/** A cursor over the elements of one constructed value. */
export class DerReader {
  private at = 0
  constructor(private readonly bytes: Uint8Array) {}

  get done(): boolean {
    return this.at === this.bytes.length
  }
  /** Tag of the next element; undefined at the end. */
  peek(): number | undefined {
    return this.bytes[this.at]
  }
  /** Content of the next element, which must have this tag. */
  value(tag: number): Uint8Array {
    return this.element(tag).content
  }
  /** The next element of this tag whole, as signatures and comparisons need it. */
  whole(tag: number): Uint8Array {
    return this.element(tag).whole
  }
  /** A reader of the next element's content. */
  open(tag: number): DerReader {
    return new DerReader(this.value(tag))
  }
  /** A reader of the next element's content when it has this tag; undefined otherwise. */
  optional(tag: number): DerReader | undefined {
    return this.peek() === tag ? this.open(tag) : undefined
  }
  end(): void {
    if (!this.done) throw new MalformedDer('surplus bytes')
  }

  private element(tag: number): { content: Uint8Array; whole: Uint8Array } {
    const start = this.at
    if (this.byte() !== tag) throw new MalformedDer(`expected tag ${tag}`)
    const length = this.length()
    const from = this.at
    if (from + length > this.bytes.length) throw new MalformedDer('cut short')
    this.at = from + length
    return { content: this.bytes.subarray(from, this.at), whole: this.bytes.subarray(start, this.at) }
  }

  private length(): number {
    const first = this.byte()
    if (first < 0x80) return first
    const count = first & 0x7f
    if (count === 0 || count > DER_LENGTH_BYTES_MAX) throw new MalformedDer('length form')
    let length = 0
    for (let read = 0; read < count; read++) length = length * 256 + this.byte()
    if (length < 0x80 || length < 256 ** (count - 1)) throw new MalformedDer('length is not minimal')
    return length
  }

  private byte(): number {
    const byte = this.bytes[this.at++]
    if (byte === undefined) throw new MalformedDer('cut short')
    return byte
  }
}

/** Reads `der` as exactly one element of this tag. */
export function openDer(der: Uint8Array, tag: number): DerReader {
  const outer = new DerReader(der)
  const inner = outer.open(tag)
  outer.end()
  return inner
}

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
function readMagnitude(reader: DerReader): Uint8Array {
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

/** Unix milliseconds of a UTCTime or GeneralizedTime in the forms of RFC 5280 section 4.1.2.5. */
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

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' } as const
const SIGNATURE = { name: 'ECDSA', hash: 'SHA-256' } as const

/** True when `signature` (r ‖ s, 64 bytes) over `message` is by the key `point` (x ‖ y, 64 bytes); false for other widths. */
export async function isSignedBy(
  point: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  const key = await importPoint(point)
  if (key === undefined) return false
  return crypto.subtle.verify(SIGNATURE, key, new Uint8Array(signature), new Uint8Array(message))
}

/** Undefined when the bytes are no point of the curve. */
async function importPoint(point: Uint8Array): Promise<CryptoKey | undefined> {
  const uncompressed = concatBytes(Uint8Array.of(4), point)
  try {
    return await crypto.subtle.importKey('raw', new Uint8Array(uncompressed), CURVE, false, ['verify'])
  } catch {
    return undefined
  }
}

/** r ‖ s of a DER `ECDSA-Sig-Value` (RFC 3279 section 2.2.3). @throws MalformedDer */
export function rawSignature(der: Uint8Array): Uint8Array {
  const reader = openDer(der, TAG.sequence)
  const raw = new Uint8Array(64)
  for (const end of [32, 64]) {
    const magnitude = readMagnitude(reader)
    if (magnitude.length > 32) throw new MalformedDer('signature integer is too long')
    raw.set(magnitude, end - magnitude.length)
  }
  reader.end()
  return raw
}
