/** Strict DER (ITU-T X.690 section 10): one-byte tags, definite minimal lengths, nothing left over. Reads, never writes. */

import { Refused } from '../refused'

/** The bytes are not the DER that was expected. */
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

const LENGTH_BYTES_MAX = 3

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
    if (count === 0 || count > LENGTH_BYTES_MAX) throw new MalformedDer('length form')
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
