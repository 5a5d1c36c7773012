/** Final orders by id, oldest first, as rows of bytes: millions are kept, and as objects they would be most of the heap. */
import type { TradingKey } from './account'
import type { ByteReader, ByteWriter } from './byte_stream'
import { copyBytes } from './copy_bytes'
import type { FinalOrder } from './final_order'
import { expiryOf, type FinalFacts, finalTimeOf, ROW_BYTES, readRow, writeRow } from './final_row'
import { IdTable } from './id_table'
import { IDENTITY_BYTES } from './order_row'
import { type Chunk, newChunk } from './row_memory'

/** Rows are kept in blocks, so that growing copies nothing and what is forgotten is given back. */
const BLOCK_ROWS = 4096

/** About 120 bytes per order: its row and its place in the table of ids. */
export class FinalOrders {
  private blocks: Chunk[] = []
  /** Number of the first row in the first block, of the oldest order, and of the next. Numbers only grow. */
  private base = 0
  private first = 0
  private next = 0
  private readonly table = new IdTable(
    { bytesOf: (number) => this.blockOf(number).bytes, placeOf: (number) => this.rowAt(number) },
    16,
    () => this.first,
  )

  /** @param keys by index: rows name keys by it. */
  constructor(private readonly keys: readonly TradingKey[]) {}

  get size(): number {
    return this.next - this.first
  }

  /**
   * @param live where the row of the live order begins: its identity is kept
   * @throws Error for an id that is held already
   */
  add(live: { bytes: Uint8Array; at: number }, final: FinalFacts): void {
    const chunk = this.room()
    const at = this.rowAt(this.next)
    copyBytes(live.bytes, live.at, chunk.bytes, at, IDENTITY_BYTES)
    writeRow(chunk, at, final)
    this.table.add(this.next++)
  }

  /** @param order_id 16 bytes */
  find(order_id: Uint8Array): FinalOrder | undefined {
    const number = this.table.find(order_id)
    return number === undefined ? undefined : this.read(number)
  }

  oldest(): { expiry_slot: number; final_unix_ms: number } | undefined {
    if (this.size === 0) return undefined
    const { view } = this.blockOf(this.first)
    const at = this.rowAt(this.first)
    return { expiry_slot: expiryOf(view, at), final_unix_ms: finalTimeOf(view, at) }
  }

  dropOldest(): void {
    if (this.size === 0) return
    this.table.remove(this.first)
    this.first++
    if (this.first - this.base < BLOCK_ROWS) return
    this.blocks.shift()
    this.base += BLOCK_ROWS
  }

  /** Oldest first. */
  *values(): Generator<FinalOrder> {
    for (let number = this.first; number < this.next; number++) yield this.read(number)
  }

  /** Stops after every block of rows. */
  *encode(to: ByteWriter): Generator<void> {
    to.uint(this.size)
    for (let number = this.first; number < this.next; ) {
      const count = Math.min(this.next - number, BLOCK_ROWS - ((number - this.base) % BLOCK_ROWS))
      const at = this.rowAt(number)
      yield to.fixed(this.blockOf(number).bytes.subarray(at, at + count * ROW_BYTES), count * ROW_BYTES)
      number += count
    }
  }

  /** Appends what `encode` wrote. */
  decode(from: ByteReader): void {
    for (let count = from.uint(); count > 0; count--) {
      this.room().bytes.set(from.fixed(ROW_BYTES), this.rowAt(this.next))
      this.table.add(this.next++)
    }
  }

  /** The block that takes the next row. */
  private room(): Chunk {
    if (this.next - this.base === this.blocks.length * BLOCK_ROWS) {
      this.blocks.push(newChunk(BLOCK_ROWS * ROW_BYTES))
    }
    return this.blockOf(this.next)
  }

  private blockOf(number: number): Chunk {
    return this.blocks[Math.floor((number - this.base) / BLOCK_ROWS)]!
  }

  private rowAt(number: number): number {
    return ((number - this.base) % BLOCK_ROWS) * ROW_BYTES
  }

  private read(number: number): FinalOrder {
    const { key: index, ...facts } = readRow(this.blockOf(number), this.rowAt(number))
    const key = this.keys[index]!
    return { ...facts, account_id: key.account.account_id, trading_key: key.text }
  }
}
