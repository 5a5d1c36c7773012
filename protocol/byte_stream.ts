/** Writes and reads runs of bytes: little-endian integers, fixed-width bytes, counted blobs and texts. */
import { copyBytes, utf8 } from './bytes'

/** Bytes that do not fit the layout. The message names the part, never its content. */
export class CodecError extends Error {
  override readonly name = 'CodecError'
}

export class ByteWriter {
  private bytes: Uint8Array<ArrayBuffer>
  private view: DataView
  private at = 0

  /** @param expected bytes; beyond them the buffer doubles, which copies it */
  constructor(expected = 512) {
    // Buffer first: the engine would otherwise create it on the first use of `.buffer` and move the array's bytes.
    const buffer = new ArrayBuffer(expected)
    this.bytes = new Uint8Array(buffer)
    this.view = new DataView(buffer)
  }

  /** The low `width` bytes of an integer, `width` 1, 2 or 4. @throws RangeError when it does not fit */
  int(value: number, width: 1 | 2 | 4): void {
    const most = width === 1 ? 0xff : width === 2 ? 0xffff : 0xffff_ffff
    if (!Number.isInteger(value) || value < 0 || value > most)
      throw new RangeError(`value does not fit ${width} bytes`)
    const at = this.room(width)
    if (width === 1) this.bytes[at] = value
    else if (width === 2) this.view.setUint16(at, value, true)
    else this.view.setUint32(at, value, true)
  }
  byte(value: number): void {
    const at = this.room(1)
    this.bytes[at] = value
  }
  /** A non-negative safe integer in 8 bytes. */
  uint(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError('not a non-negative safe integer')
    const at = this.room(8)
    this.view.setUint32(at, value >>> 0, true)
    this.view.setUint32(at + 4, Math.floor(value / 0x1_0000_0000), true)
  }
  u64(value: bigint): void {
    if (value < 0n || value > 0xffff_ffff_ffff_ffffn) throw new RangeError('value does not fit u64')
    // `room` may replace the view, so it is called first.
    const at = this.room(8)
    this.view.setBigUint64(at, value, true)
  }
  fixed(value: Uint8Array, width: number): void {
    if (value.length !== width) throw new RangeError(`expected ${width} bytes`)
    const at = this.room(width)
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
        const bytes = utf8(value)
        this.uint(bytes.length)
        this.fixed(bytes, bytes.length)
        return
      }
      this.bytes[at + char] = code
    }
  }
  /** Printable ASCII, zero padded. @throws RangeError for any other text, or one longer than `width` */
  ascii(value: string, width: number): void {
    if (value.length > width) throw new RangeError(`text does not fit ${width} ASCII bytes`)
    const at = this.room(width)
    for (let char = 0; char < width; char++) {
      const code = char < value.length ? value.charCodeAt(char) : 0
      if (char < value.length && !isPrintable(code)) throw new RangeError('text is not printable ASCII')
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
  /** The output from `from` on as a view, valid until the next write. */
  whole(from = 0): Uint8Array<ArrayBuffer> {
    return this.bytes.subarray(from, this.at)
  }
  /** A copy of the output. */
  done(): Uint8Array<ArrayBuffer> {
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

const NO_BYTES = new Uint8Array(0)
const scratch = new DataView(new ArrayBuffer(8))

/** Fields of layouts that are read too often for a reader; the bytes must reach that far. */
export const u16At = (bytes: Uint8Array, at: number): number => bytes[at]! | (bytes[at + 1]! << 8)
export const u32At = (bytes: Uint8Array, at: number): number =>
  (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
/**
 * Exact only for safe integers. A sum with a product would make a small integer a double, and the code that writes it to a
 * view would never be compiled for good.
 */
export const uintAt = (bytes: Uint8Array, at: number): number => {
  const low = u32At(bytes, at)
  const high = u32At(bytes, at + 4)
  return high === 0 ? low : low + high * 0x1_0000_0000
}

/**
 * Reads without a DataView: creating one per record costs more than decoding the record. Every read throws CodecError when
 * the bytes end before the value does.
 */
export class ByteReader {
  /** Receives each block in turn; one reused buffer leaves no garbage behind. */
  private joined = NO_BYTES

  /**
   * @param at where to begin
   * @param more the blocks that follow `bytes`
   */
  constructor(
    private bytes: Uint8Array,
    public at = 0,
    private readonly more?: Iterator<Uint8Array>,
  ) {}

  /** Bytes that are left where no blocks follow. */
  get left(): number {
    return this.bytes.length - this.at
  }

  byte(): number {
    const at = this.skip(1)
    return this.bytes[at]!
  }
  u16(): number {
    const at = this.skip(2)
    return u16At(this.bytes, at)
  }
  u32(): number {
    const at = this.skip(4)
    return u32At(this.bytes, at)
  }
  uint(): number {
    const at = this.skip(8)
    const value = uintAt(this.bytes, at)
    if (!Number.isSafeInteger(value)) throw new CodecError('not a safe integer')
    return value
  }
  u64(): bigint {
    const at = this.skip(8)
    scratch.setUint32(0, u32At(this.bytes, at), true)
    scratch.setUint32(4, u32At(this.bytes, at + 4), true)
    return scratch.getBigUint64(0, true)
  }
  /** A copy, so that the decoded value does not keep the whole record alive. */
  fixed(width: number): Uint8Array {
    const at = this.skip(width)
    return this.bytes.slice(at, at + width)
  }
  /** True when the next bytes are these; creates no view of them. */
  matches(bytes: Uint8Array): boolean {
    const at = this.skip(bytes.length)
    for (let i = 0; i < bytes.length; i++) if (this.bytes[at + i] !== bytes[i]) return false
    return true
  }
  /** A view, valid while the bytes are. */
  view(width: number): Uint8Array {
    const at = this.skip(width)
    return this.bytes.subarray(at, at + width)
  }
  /** Copies the next `width` bytes to `to_at` of `to`. */
  copy(to: Uint8Array, to_at: number, width: number): void {
    const at = this.skip(width)
    copyBytes(this.bytes, at, to, to_at, width)
  }
  text(): string {
    const length = this.uint()
    const at = this.skip(length)
    return textOf(this.bytes, at, at + length)
  }
  /** @throws CodecError unless the next `width` bytes are printable ASCII followed by zeros */
  ascii(width: number): string {
    const from = this.skip(width)
    let end = from
    while (end < from + width && this.bytes[end] !== 0) {
      if (!isPrintable(this.bytes[end]!)) throw new CodecError('text is not printable ASCII')
      end++
    }
    for (let at = end; at < from + width; at++)
      if (this.bytes[at] !== 0) throw new CodecError('padding is not zero')
    return textOf(this.bytes, from, end)
  }
  /** @throws CodecError when bytes remain */
  done(): void {
    const follow = this.at !== this.bytes.length || this.more?.next().done === false
    if (follow) throw new CodecError('bytes follow the value')
  }

  /** Consumes `width` bytes and returns their offset; may replace `this.bytes`. */
  skip(width: number): number {
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

function isPrintable(code: number): boolean {
  return code >= 0x20 && code <= 0x7e
}

const decoder = new TextDecoder('utf-8', { fatal: true })
/** Longer texts are decoded without the cache. */
const CACHED_BYTES_MAX = 64
/** Bytes that are hashed, spread over the text. */
const HASHED_BYTES = 16
/** Slots of the cache. A text replaces one with the same hash, so memory is bounded. */
const CACHED_TEXTS = 1024
const cached_bytes: (Uint8Array | undefined)[] = new Array(CACHED_TEXTS).fill(undefined)
const cached_texts: string[] = new Array(CACHED_TEXTS).fill('')

/**
 * Decodes UTF-8 and returns the same string for the same short bytes: journals repeat account ids and symbols in every
 * record.
 */
function textOf(bytes: Uint8Array, from: number, to: number): string {
  if (to - from > CACHED_BYTES_MAX) return decodeUtf8(bytes.subarray(from, to))
  let hash = to - from
  const step = Math.ceil(hash / HASHED_BYTES)
  for (let at = from; at < to; at += step) hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
  const place = (hash ^ (hash >>> 15)) & (CACHED_TEXTS - 1)
  const cached = cached_bytes[place]
  if (cached !== undefined && equalsRange(cached, bytes, from, to)) return cached_texts[place]!
  const own = bytes.slice(from, to)
  const text = decodeUtf8(own)
  cached_bytes[place] = own
  cached_texts[place] = text
  return text
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes)
  } catch {
    throw new CodecError('text is not UTF-8')
  }
}

function equalsRange(cached: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (cached.length !== to - from) return false
  for (let at = 0; at < cached.length; at++) if (cached[at] !== bytes[from + at]) return false
  return true
}
