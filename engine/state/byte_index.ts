/** A growing list of 32-byte keys with lookup by content: finalized leaves by index, spent nullifiers. */
import { keyedHash } from './keyed_hash'

const WIDTH = 32
const START = 1024
/**
 * Appends only. 32 bytes per key and 4 to 8 for its place in an open-addressing table; a repeated key is appended too,
 * and its first place stays the one that is found.
 */
export class ByteIndex {
  private bytes = new Uint8Array(START * WIDTH)
  private table = new Uint32Array(START * 2)
  private count = 0

  get size(): number {
    return this.count
  }

  /** The key at a place; a view that must not be written. */
  at(place: number): Uint8Array {
    if (place >= this.count) throw new RangeError('no such place')
    return this.bytes.subarray(place * WIDTH, (place + 1) * WIDTH)
  }

  /** The first place of a key. */
  indexOf(key: Uint8Array): number | undefined {
    const entry = this.table[this.bucketOf(key)]!
    return entry === 0 ? undefined : entry - 1
  }

  has(key: Uint8Array): boolean {
    return this.table[this.bucketOf(key)] !== 0
  }

  /** Appends and returns the new place. */
  append(key: Uint8Array): number {
    if (key.length !== WIDTH) throw new RangeError(`expected ${WIDTH} bytes`)
    if ((this.count + 1) * WIDTH > this.bytes.length) this.grow()
    this.bytes.set(key, this.count * WIDTH)
    const bucket = this.bucketOf(key)
    this.count += 1
    if (this.table[bucket] === 0) this.table[bucket] = this.count
    return this.count - 1
  }

  /** All keys, concatenated; a view that must not be written. */
  content(): Uint8Array {
    return this.bytes.subarray(0, this.count * WIDTH)
  }

  static of(content: Uint8Array): ByteIndex {
    const index = new ByteIndex()
    for (let at = 0; at < content.length; at += WIDTH) index.append(content.subarray(at, at + WIDTH))
    return index
  }

  /** Where the key is, or the free bucket where it would go. */
  private bucketOf(key: Uint8Array): number {
    const mask = this.table.length - 1
    let bucket = keyedHash(key, 0, WIDTH / 4) & mask
    for (;;) {
      const entry = this.table[bucket]!
      if (entry === 0 || this.equals(entry - 1, key)) return bucket
      bucket = (bucket + 1) & mask
    }
  }

  private equals(place: number, key: Uint8Array): boolean {
    const from = place * WIDTH
    for (let at = WIDTH - 1; at >= 0; at--) if (this.bytes[from + at] !== key[at]) return false
    return true
  }

  private grow(): void {
    const bytes = new Uint8Array(this.bytes.length * 2)
    bytes.set(this.bytes)
    this.bytes = bytes
    this.table = new Uint32Array(this.table.length * 2)
    for (let place = 0; place < this.count; place++) {
      const bucket = this.bucketOf(this.at(place))
      if (this.table[bucket] === 0) this.table[bucket] = place + 1
    }
  }
}
