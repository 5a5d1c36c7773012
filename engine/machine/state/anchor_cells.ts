/** Stores continuation anchors, 36 bytes each; the anchors of one order form a chain. */
import type { ByteWriter } from '../../../protocol/byte_stream'
import { copyBytes } from '../../../protocol/bytes'
import { RowSlab } from '../../memory/rows'

const WIDTH = 32
/** Handle of the next cell, 0 = none; then the anchor. */
const CELL_BYTES = 4 + WIDTH

export class AnchorCells {
  private readonly cells = new RowSlab(CELL_BYTES)

  /** Cells in use. */
  get size(): number {
    return this.cells.size
  }

  /** Allocates for `count` anchors. */
  reserve(count: number): void {
    this.cells.reach(count)
  }

  /**
   * Stores a new chain and returns its first cell.
   * @param anchors at least one, 32 bytes each
   */
  add(anchors: readonly Uint8Array[]): number {
    let first = 0
    for (let index = anchors.length - 1; index >= 0; index--) {
      const cell = this.cells.take()
      const { bytes, view } = this.cells.chunkOf(cell)
      const at = this.cells.placeOf(cell)
      view.setUint32(at, first, true)
      copyBytes(anchors[index]!, 0, bytes, at + 4, WIDTH)
      first = cell
    }
    return first
  }

  /** A copy of the anchor at an index of the chain. */
  read(first: number, index: number): Uint8Array {
    let cell = first
    for (let steps = index; steps > 0; steps--) cell = this.next(cell)
    const at = this.cells.placeOf(cell) + 4
    return this.cells.bytesOf(cell).slice(at, at + WIDTH)
  }

  /** Writes all anchors of a chain. */
  encode(to: ByteWriter, first: number): void {
    for (let cell = first; cell !== 0; cell = this.next(cell)) {
      to.copy(this.cells.bytesOf(cell), this.cells.placeOf(cell) + 4, WIDTH)
    }
  }

  remove(first: number): void {
    for (let cell = first; cell !== 0; ) {
      const next = this.next(cell)
      const at = this.cells.placeOf(cell)
      this.cells.bytesOf(cell).fill(0, at, at + CELL_BYTES)
      this.cells.give(cell)
      cell = next
    }
  }

  private next(cell: number): number {
    return this.cells.chunkOf(cell).view.getUint32(this.cells.placeOf(cell), true)
  }
}
