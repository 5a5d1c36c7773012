/** Stores rows of bytes by growing numbers, oldest first, with lookup by the key that each row begins with. */
import type { ByteReader, ByteWriter } from '../../protocol/byte_stream'
import { copyBytes } from '../../protocol/bytes'
import { type HashSeed, IdTable } from './id_table'
import { type Chunk, newChunk } from './rows'

/** Rows are in blocks, so that growth copies nothing and the memory of dropped rows is freed. */
const BLOCK_ROWS = 4096

export class RowQueue {
  private blocks: Chunk[] = []
  /** Number of the first row in the first block. */
  private base = 0
  private oldest = 0
  private next = 0
  private readonly table: IdTable

  constructor(
    key_bytes: number,
    readonly row_bytes: number,
    seed: HashSeed,
  ) {
    const ids = {
      bytesOf: (number: number) => this.chunkOf(number).bytes,
      placeOf: (number: number) => this.placeOf(number),
    }
    this.table = new IdTable(ids, seed, key_bytes, () => this.oldest)
  }

  /** Number of the oldest row that is kept. */
  get first(): number {
    return this.oldest
  }

  /** Rows ever appended: the number of the next one. */
  get size(): number {
    return this.next
  }

  /** The newest number of the key at `from` among the kept rows; a key may repeat. */
  indexOf(key: Uint8Array, from = 0): number | undefined {
    return this.table.find(key, from)
  }

  has(key: Uint8Array): boolean {
    return this.table.find(key) !== undefined
  }

  /** A kept row, as a read-only view. @throws RangeError for any other number */
  at(number: number): Uint8Array {
    if (!(number >= this.oldest && number < this.next)) throw new RangeError('no such row')
    const at = this.placeOf(number)
    return this.chunkOf(number).bytes.subarray(at, at + this.row_bytes)
  }

  append(row: Uint8Array): number {
    if (row.length !== this.row_bytes) throw new RangeError(`expected ${this.row_bytes} bytes`)
    this.reach()
    copyBytes(row, 0, this.chunkOf(this.next).bytes, this.placeOf(this.next), this.row_bytes)
    return this.enter()
  }

  /** Drops the rows before `number`, in time proportional to the fewer of dropped and kept rows. */
  dropBefore(number: number): void {
    const end = Math.min(number, this.next)
    if (end - this.oldest <= this.next - end) {
      // A newer row of the same key has taken the place of an older one.
      for (; this.oldest < end; this.oldest++) this.table.drop(this.oldest)
    } else {
      this.table.clear()
      this.table.reserve(this.next - end)
      this.oldest = end
      for (let kept = end; kept < this.next; kept++) this.table.put(kept)
    }
    const unused = Math.floor((this.oldest - this.base) / BLOCK_ROWS)
    this.blocks.splice(0, unused)
    this.base += unused * BLOCK_ROWS
  }

  /** Removes the rows from `size` on, none of whose keys an earlier row has too. */
  truncate(size: number): void {
    if (size < this.oldest) throw new RangeError('no such row')
    while (this.next > size) this.table.remove(--this.next)
  }

  /** Writes the number of the oldest row and all rows as one counted blob; yields after each row. */
  *encode(to: ByteWriter): Generator<void> {
    to.uint(this.oldest)
    to.uint((this.next - this.oldest) * this.row_bytes)
    for (let number = this.oldest; number < this.next; number++)
      yield to.copy(this.chunkOf(number).bytes, this.placeOf(number), this.row_bytes)
  }

  /** Reads the output of `encode`; the queue must be empty. */
  decode(from: ByteReader): void {
    this.oldest = from.uint()
    this.base = this.oldest
    this.next = this.oldest
    const rows = from.uint() / this.row_bytes
    this.table.reserve(rows)
    for (let count = rows; count > 0; count--) {
      this.reach()
      from.copy(this.chunkOf(this.next).bytes, this.placeOf(this.next), this.row_bytes)
      this.enter()
    }
  }

  private enter(): number {
    const number = this.next++
    this.table.put(number)
    return number
  }

  /** Allocates the next row. */
  private reach(): void {
    if (this.next - this.base === this.blocks.length * BLOCK_ROWS)
      this.blocks.push(newChunk(BLOCK_ROWS * this.row_bytes))
  }

  private chunkOf(number: number): Chunk {
    return this.blocks[Math.floor((number - this.base) / BLOCK_ROWS)]!
  }

  private placeOf(number: number): number {
    return ((number - this.base) % BLOCK_ROWS) * this.row_bytes
  }
}
