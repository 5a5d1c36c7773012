/** Fixed layouts of canonical bodies: a row of named fields, little-endian, zero padded, no freedom in encoding. */
import { concatBytes, isZero, paddedAscii, readPaddedAscii, readU64Le, u64Le } from './bytes'

/** Thrown when bytes are not the one encoding of any body of the layout. */
export class BodyError extends Error {}

export class BodyWriter {
  private readonly parts: Uint8Array[] = []
  domain(text: string): this {
    this.parts.push(paddedAscii(text, 16))
    return this
  }
  bytes(value: Uint8Array, width: number): this {
    if (value.length !== width) throw new RangeError(`expected ${width} bytes`)
    this.parts.push(value)
    return this
  }
  ascii(text: string, width: number): this {
    this.parts.push(paddedAscii(text, width))
    return this
  }
  u64(value: bigint): this {
    this.parts.push(u64Le(value))
    return this
  }
  byte(value: number): this {
    this.parts.push(Uint8Array.of(value))
    return this
  }
  zeros(width: number): this {
    this.parts.push(new Uint8Array(width))
    return this
  }
  done(width: number): Uint8Array {
    const body = concatBytes(...this.parts)
    if (body.length !== width) throw new RangeError(`body is ${body.length} bytes, layout has ${width}`)
    return body
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
