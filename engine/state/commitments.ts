/** Where the commitments of notes lie: that of a finalized note is its leaf and stands nowhere else. */
import type { ByteIndex } from './byte_index'
import { copyBytes } from './copy_bytes'
import type { Ids } from './id_table'
import * as row from './note_row'
import { RowSlab } from './row_slab'

const WIDTH = 32
/** A commitment, then the leaf index that was told before the leaf was final. */
const CELL_BYTES = WIDTH + 4
/** A note's number from here on names a cell, below it a leaf. */
const CELLS = 0x8000_0000

/** Named by the handle of their note; most notes that live have their leaf. */
export class Commitments implements Ids {
  /** Those of notes that have no leaf yet. */
  private readonly cells = new RowSlab(CELL_BYTES)

  constructor(
    private readonly notes: RowSlab,
    private readonly leaves: ByteIndex,
  ) {}

  /** Notes whose commitment has memory of its own. */
  get leafless(): number {
    return this.cells.size
  }

  bytesOf(handle: number): Uint8Array {
    const number = this.numberOf(handle)
    return number < CELLS ? this.leaves.bytesOf(number) : this.cells.bytesOf(number - CELLS)
  }

  placeOf(handle: number): number {
    const number = this.numberOf(handle)
    return number < CELLS ? this.leaves.placeOf(number) : this.cells.placeOf(number - CELLS)
  }

  /**
   * Gives a note the commitment at `from` of `bytes`.
   * @param leaf_index that is told of it; the leaf itself may not be final yet
   */
  put(handle: number, bytes: Uint8Array, from: number, leaf_index?: number): void {
    this.mark(handle, row.HAS_COMMITMENT | (leaf_index === undefined ? 0 : row.HAS_LEAF_INDEX))
    const leaf = leaf_index ?? this.leaves.indexOf(bytes, from)
    if (leaf !== undefined && leaf < CELLS && this.leaves.holds(leaf, bytes, from)) {
      this.setNumber(handle, leaf)
      return
    }
    const cell = this.cells.take()
    const { bytes: cells, view } = this.cells.chunkOf(cell)
    const at = this.cells.placeOf(cell)
    copyBytes(bytes, from, cells, at, WIDTH)
    view.setUint32(at + WIDTH, leaf_index ?? 0, true)
    this.setNumber(handle, CELLS + cell)
  }

  /** The commitment of a note is a leaf from now on; where another leaf was told of it, it stays as it is. */
  land(handle: number, leaf_index: number): void {
    if (this.numberOf(handle) < CELLS || leaf_index >= CELLS) return
    if ((this.leafIndex(handle) ?? leaf_index) !== leaf_index) return
    this.drop(handle)
    this.setNumber(handle, leaf_index)
  }

  /** The leaf index that was told of it. */
  leafIndex(handle: number): number | undefined {
    if (!this.flag(handle, row.HAS_LEAF_INDEX)) return undefined
    const number = this.numberOf(handle)
    if (number < CELLS) return number
    const cell = number - CELLS
    return this.cells.chunkOf(cell).view.getUint32(this.cells.placeOf(cell) + WIDTH, true)
  }

  /** The note keeps it no more. */
  drop(handle: number): void {
    const number = this.numberOf(handle)
    if (this.flag(handle, row.HAS_COMMITMENT) && number >= CELLS) this.cells.give(number - CELLS)
  }

  private numberOf(handle: number): number {
    return this.notes.chunkOf(handle).view.getUint32(this.notes.placeOf(handle) + row.COMMITMENT_AT, true)
  }

  private setNumber(handle: number, number: number): void {
    this.notes.chunkOf(handle).view.setUint32(this.notes.placeOf(handle) + row.COMMITMENT_AT, number, true)
  }

  private flag(handle: number, flag: number): boolean {
    return (this.notes.bytesOf(handle)[this.notes.placeOf(handle) + row.FLAGS_AT]! & flag) !== 0
  }

  private mark(handle: number, flag: number): void {
    this.notes.bytesOf(handle)[this.notes.placeOf(handle) + row.FLAGS_AT]! |= flag
  }
}
