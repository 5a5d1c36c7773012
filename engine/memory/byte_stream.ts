/** Writes and reads runs of little-endian integers, fixed-width bytes and counted blobs. */
import { copyBytes } from './rows'
import { textOf } from './texts'

const encoder = new TextEncoder()

/** Thrown when bytes are not what the reader expects; journal and snapshots are authenticated, so this is a bug. */
export class CodecError extends Error {}

export class ByteWriter {
  private bytes: Uint8Array
  private view: DataView
  private at = 0

  /** @param expected bytes; beyond them the buffer doubles, which copies it */
  constructor(expected = 512) {
    // Buffer first: the engine would otherwise create it on the first use of `.buffer` and move the array's bytes.
    const buffer = new ArrayBuffer(expected)
    this.bytes = new Uint8Array(buffer)
    this.view = new DataView(buffer)
  }

  byte(value: number): void {
    const at = this.room(1)
    this.bytes[at] = value
  }
  /** A non-negative safe integer in 8 bytes. */
  uint(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) throw new CodecError('not a non-negative safe integer')
    const at = this.room(8)
    this.view.setUint32(at, value >>> 0, true)
    this.view.setUint32(at + 4, Math.floor(value / 0x1_0000_0000), true)
  }
  u64(value: bigint): void {
    if (value < 0n || value > 0xffff_ffff_ffff_ffffn) throw new CodecError('value does not fit u64')
    // `room` may replace the view, so it is called first.
    const at = this.room(8)
    this.view.setBigUint64(at, value, true)
  }
  i128(value: bigint): void {
    this.byte(value < 0n ? 1 : 0)
    const size = value < 0n ? -value : value
    this.u64(size & 0xffff_ffff_ffff_ffffn)
    this.u64(size >> 64n)
  }
  fixed(value: Uint8Array, width: number): void {
    if (value.length !== width) throw new CodecError(`expected ${width} bytes`)
    const at = this.room(width)
    this.bytes.set(value, at)
  }
  blob(value: Uint8Array): void {
    this.uint(value.length)
    const at = this.room(value.length)
    this.bytes.set(value, at)
  }
  /** Writes `width` bytes of `bytes` from `from` on. */
  copy(bytes: Uint8Array, from: number, width: number): void {
    const at = this.room(width)
    copyBytes(bytes, from, this.bytes, at, width)
  }
  /** UTF-8, counted. ASCII, by far the most common, is written without an encoder. */
  text(value: string): void {
    const before = this.at
    this.uint(value.length)
    const at = this.room(value.length)
    for (let char = 0; char < value.length; char++) {
      const code = value.charCodeAt(char)
      if (code > 0x7f) {
        this.at = before
        this.blob(encoder.encode(value))
        return
      }
      this.bytes[at + char] = code
    }
  }
  get length(): number {
    return this.at
  }
  /** Discards all output. */
  begin(): void {
    this.at = 0
  }
  /** The output as a view, valid until the next write. */
  whole(): Uint8Array {
    return this.bytes.subarray(0, this.at)
  }
  /** A copy of the output. */
  done(): Uint8Array {
    return this.bytes.slice(0, this.at)
  }

  private room(width: number): number {
    const at = this.at
    if (at + width > this.bytes.length) {
      const larger = new Uint8Array(Math.max(at + width, this.bytes.length * 2))
      larger.set(this.bytes.subarray(0, at))
      this.bytes = larger
      this.view = new DataView(larger.buffer)
    }
    this.at = at + width
    return at
  }
}

const NO_SIGNATURE = new Uint8Array(0)

/** Reads without a DataView: creating one per record costs more than decoding the record. */
export class ByteReader {
  private at = 0
  /** Receives each block in turn; one reused buffer leaves no garbage behind. */
  private joined = new Uint8Array(0)

  /**
   * @param signatures false skips signatures, see `signature`
   * @param more the blocks that follow `bytes`
   */
  constructor(
    private bytes: Uint8Array,
    private readonly signatures = true,
    private readonly more?: Iterator<Uint8Array>,
  ) {}

  byte(): number {
    const at = this.skip(1)
    return this.bytes[at]!
  }
  uint(): number {
    const at = this.skip(8)
    const value = this.u32(at) + this.u32(at + 4) * 0x1_0000_0000
    if (!Number.isSafeInteger(value)) throw new CodecError('not a safe integer')
    return value
  }
  u64(): bigint {
    const at = this.skip(8)
    const low = this.u32(at)
    const high = this.u32(at + 4)
    if (high < 0x20_0000) return BigInt(low + high * 0x1_0000_0000)
    return BigInt(low) | (BigInt(high) << 32n)
  }
  i128(): bigint {
    const negative = this.byte() === 1
    const size = this.u64() | (this.u64() << 64n)
    return negative ? -size : size
  }
  /** A copy, so that the decoded value does not keep the whole record alive. */
  fixed(width: number): Uint8Array {
    const at = this.skip(width)
    return this.bytes.slice(at, at + width)
  }
  /** Copies the next `width` bytes to `to_at` of `to`. */
  copy(to: Uint8Array, to_at: number, width: number): void {
    const at = this.skip(width)
    copyBytes(this.bytes, at, to, to_at, width)
  }
  /** 64 bytes, or an empty array if the reader skips signatures. */
  signature(): Uint8Array {
    if (this.signatures) return this.fixed(64)
    this.skip(64)
    return NO_SIGNATURE
  }
  blob(): Uint8Array {
    return this.fixed(this.uint())
  }
  text(): string {
    const length = this.uint()
    const at = this.skip(length)
    return textOf(this.bytes, at, at + length)
  }
  /** @throws CodecError when bytes remain. */
  done(): void {
    const follow = this.at !== this.bytes.length || this.more?.next().done === false
    if (follow) throw new CodecError('bytes follow the value')
  }

  private u32(at: number): number {
    const { bytes } = this
    return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  }

  /** Consumes `width` bytes and returns their offset; may replace `this.bytes`. */
  private skip(width: number): number {
    if (this.at + width > this.bytes.length) this.readOn(width)
    const at = this.at
    this.at = at + width
    return at
  }

  /** Joins the rest of `bytes` with following blocks until `width` bytes are there. Copies, so no block stays alive. */
  private readOn(width: number): void {
    let filled = this.join(this.bytes.subarray(this.at), 0)
    while (filled < width) {
      const next = this.more?.next()
      if (next === undefined || next.done) throw new CodecError('the value is cut short')
      filled = this.join(next.value, filled)
    }
    this.bytes = this.joined.subarray(0, filled)
    this.at = 0
  }

  /** Appends a part after `filled` joined bytes and returns the new count. */
  private join(part: Uint8Array, filled: number): number {
    const end = filled + part.length
    if (end > this.joined.length) {
      const larger = new Uint8Array(Math.max(end, this.joined.length * 2))
      larger.set(this.joined.subarray(0, filled))
      this.joined = larger
    }
    this.joined.set(part, filled)
    return end
  }
}
