/** Stores a growing list of 32-byte keys with lookup by content: finalized leaves by index, spent nullifiers. */
import type { ByteReader, ByteWriter } from '../../protocol/byte_stream'
import { copyBytes } from '../../protocol/bytes'
import { type HashSeed, IdTable } from './id_table'
import { RowMemory } from './rows'

const WIDTH = 32

/**
 * About 42 bytes per key; growth copies no keys. A key may repeat: lookup finds its first place. The handle of
 * a row is 1 + the place of its key.
 */
export class ByteIndex {
  private readonly rows = new RowMemory(WIDTH)
  private readonly table: IdTable
  private count = 0

  constructor(seed: HashSeed) {
    this.table = new IdTable(this.rows, seed, WIDTH)
  }

  get size(): number {
    return this.count
  }

  /** The key at a place, as a read-only view. */
  at(place: number): Uint8Array {
    if (place >= this.count) throw new RangeError('no such place')
    const from = this.rows.placeOf(place + 1)
    return this.rows.bytesOf(place + 1).subarray(from, from + WIDTH)
  }

  /** The bytes that contain the key at a place, and its offset there; unlike `at`, this allocates no view. */
  bytesOf(place: number): Uint8Array {
    return this.rows.bytesOf(place + 1)
  }
  placeOf(place: number): number {
    return this.rows.placeOf(place + 1)
  }

  /** Whether the key at a place equals the 32 bytes at `from`. */
  holds(place: number, bytes: Uint8Array, from = 0): boolean {
    if (place >= this.count) return false
    const key = this.bytesOf(place)
    const at = this.placeOf(place)
    for (let byte = 0; byte < WIDTH; byte++) if (key[at + byte] !== bytes[from + byte]) return false
    return true
  }

  /** The first place of the key that is the 32 bytes at `from`. */
  indexOf(bytes: Uint8Array, from = 0): number | undefined {
    const handle = this.table.find(bytes, from)
    return handle === undefined ? undefined : handle - 1
  }

  has(key: Uint8Array): boolean {
    return this.table.find(key) !== undefined
  }

  /** Appends and returns the new place. */
  append(key: Uint8Array): number {
    if (key.length !== WIDTH) throw new RangeError(`expected ${WIDTH} bytes`)
    const handle = this.room()
    copyBytes(key, 0, this.rows.bytesOf(handle), this.rows.placeOf(handle), WIDTH)
    this.enter(handle)
    return this.count - 1
  }

  /** Removes the keys from place `size` on, none of which may stand at an earlier place too. */
  truncate(size: number): void {
    for (; this.count > size; this.count--) this.table.remove(this.count)
  }

  /** Writes all keys as one counted blob; yields after each key. */
  *encode(to: ByteWriter): Generator<void> {
    to.uint(this.count * WIDTH)
    for (let handle = 1; handle <= this.count; handle++) {
      yield to.copy(this.rows.bytesOf(handle), this.rows.placeOf(handle), WIDTH)
    }
  }

  /** Reads the output of `encode`; the index must be empty. */
  decode(from: ByteReader): void {
    const keys = from.uint() / WIDTH
    this.rows.reach(keys)
    this.table.reserve(keys)
    for (let count = keys; count > 0; count--) {
      const handle = this.room()
      from.copy(this.rows.bytesOf(handle), this.rows.placeOf(handle), WIDTH)
      this.enter(handle)
    }
  }

  private room(): number {
    const handle = this.count + 1
    this.rows.reach(handle)
    return handle
  }

  private enter(handle: number): void {
    this.count++
    if (this.table.find(this.rows.bytesOf(handle), this.rows.placeOf(handle)) === undefined)
      this.table.add(handle)
  }
}
