/** Writes and reads canonical signed bodies: fixed fields in order, little-endian, zero padded, one encoding per value. */
import { CodecError } from '../byte_stream'
import { isZero, readPaddedAscii, readU64Le } from '../bytes'
import { sha256 } from '../sha256'

export const BodyError = CodecError

/** Scratch space of all writers: one DataView per body would cost more than the body. */
const u64_scratch = new DataView(new ArrayBuffer(8))

/** Writes in place, because a body is built for every signature that is verified. */
export class BodyWriter {
  private readonly body: Uint8Array
  private at = 0

  constructor(private readonly width: number) {
    this.body = new Uint8Array(width)
  }
  domain(text: string): this {
    return this.ascii(text, 16)
  }
  bytes(value: Uint8Array, width: number): this {
    if (value.length !== width) throw new RangeError(`expected ${width} bytes`)
    this.body.set(value, this.room(width))
    return this
  }
  /** @throws RangeError when the text is longer than `width` or not printable ASCII. */
  ascii(text: string, width: number): this {
    if (text.length > width) throw new RangeError(`text does not fit ${width} ASCII bytes`)
    const start = this.room(width)
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (code < 0x20 || code > 0x7e) throw new RangeError('text is not printable ASCII')
      this.body[start + at] = code
    }
    return this
  }
  /** @throws RangeError outside 0..2^64-1. */
  u64(value: bigint): this {
    if (value < 0n || value > 0xffff_ffff_ffff_ffffn) throw new RangeError('value does not fit u64')
    u64_scratch.setBigUint64(0, value, true)
    const start = this.room(8)
    for (let at = 0; at < 8; at++) this.body[start + at] = u64_scratch.getUint8(at)
    return this
  }
  byte(value: number): this {
    this.body[this.room(1)] = value
    return this
  }
  zeros(width: number): this {
    this.room(width)
    return this
  }
  done(): Uint8Array {
    if (this.at !== this.width) throw new RangeError(`body is ${this.at} bytes, layout has ${this.width}`)
    return this.body
  }

  private room(width: number): number {
    const start = this.at
    this.at += width
    if (this.at > this.width) throw new RangeError(`the layout has ${this.width} bytes`)
    return start
  }
}

export class BodyReader {
  private at = 0
  constructor(
    private readonly body: Uint8Array,
    width: number,
  ) {
    if (body.length !== width) throw new BodyError(`expected ${width} bytes`)
  }
  domain(text: string): void {
    if (readPaddedAscii(this.bytes(16)) !== text) throw new BodyError(`domain is not ${text}`)
  }
  bytes(width: number): Uint8Array {
    this.at += width
    return this.body.slice(this.at - width, this.at)
  }
  ascii(width: number): string {
    const text = readPaddedAscii(this.bytes(width))
    if (text === undefined) throw new BodyError('padding is not zero')
    return text
  }
  u64(): bigint {
    this.at += 8
    return readU64Le(this.body, this.at - 8)
  }
  byte(): number {
    return this.body[this.at++]!
  }
  zeros(width: number): void {
    if (!isZero(this.bytes(width))) throw new BodyError('reserved bytes are not zero')
  }
}

/** The id of a withdrawal or reshape: the first 16 bytes of SHA-256 of its body. */
export function bodyId(body: Uint8Array): Uint8Array {
  return sha256(body).slice(0, 16)
}
