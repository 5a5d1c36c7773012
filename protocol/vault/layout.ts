/** Writes and reads the fixed-width little-endian fields of every vault layout. */

/** Writes fields one after the other into a buffer of exactly the announced size. */
export class LayoutWriter {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(size: number) {
    this.#bytes = new Uint8Array(size)
    this.#view = new DataView(this.#bytes.buffer)
  }

  u8(value: number): this {
    if (!Number.isInteger(value) || value < 0 || value > 0xff) throw new RangeError('value does not fit u8')
    this.#view.setUint8(this.#at, value)
    this.#at += 1
    return this
  }

  u64(value: bigint | number): this {
    const integer = BigInt(value)
    if (integer < 0n || integer >= 1n << 64n) throw new RangeError('value does not fit u64')
    this.#view.setBigUint64(this.#at, integer, true)
    this.#at += 8
    return this
  }

  bytes(value: Uint8Array, width: number): this {
    if (value.length !== width) throw new RangeError(`expected ${width} bytes, got ${value.length}`)
    this.#bytes.set(value, this.#at)
    this.#at += width
    return this
  }

  zeros(width: number): this {
    this.#at += width
    return this
  }

  /** @throws when fields and announced size disagree: a layout is never silently short. */
  finish(): Uint8Array {
    if (this.#at !== this.#bytes.length) throw new RangeError('layout size and fields disagree')
    return this.#bytes
  }
}

/** Reads fields one after the other; every overrun is a RangeError, which decoders turn into undefined. */
export class LayoutReader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at: number

  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#at = at
  }

  u8(): number {
    const value = this.#view.getUint8(this.#at)
    this.#at += 1
    return value
  }

  u16(): number {
    const value = this.#view.getUint16(this.#at, true)
    this.#at += 2
    return value
  }

  u32(): number {
    const value = this.#view.getUint32(this.#at, true)
    this.#at += 4
    return value
  }

  u64(): bigint {
    const value = this.#view.getBigUint64(this.#at, true)
    this.#at += 8
    return value
  }

  /** A u64 that counts (slots, indexes, epochs): exact as a JavaScript integer, else a RangeError. */
  count(): number {
    const value = Number(this.u64())
    if (!Number.isSafeInteger(value)) throw new RangeError('count exceeds 2^53 - 1')
    return value
  }

  bytes(width: number): Uint8Array {
    if (this.#at + width > this.#bytes.length) throw new RangeError('layout is too short')
    const value = this.#bytes.slice(this.#at, this.#at + width)
    this.#at += width
    return value
  }

  skip(width: number): this {
    this.#at += width
    return this
  }

  /** True when every byte was read: layouts are exact, trailing bytes make them foreign. */
  atEnd(): boolean {
    return this.#at === this.#bytes.length
  }
}

/** The result of `read` on untrusted data; undefined when it runs out of bytes or out of range. */
export function readLayout<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
