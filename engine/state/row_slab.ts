/** Rows that are taken and given back; what was given back last is taken first, so memory stays as small as it can. */
import { RowMemory } from './row_memory'

/** A row must have at least 4 bytes: those of a free row name the next free one. Nothing else of it is touched here. */
export class RowSlab extends RowMemory {
  private free = 0
  private fresh = 1
  /** Rows that are taken. */
  size = 0

  /** The first 4 bytes of the row are zero; the others are as they were when it was given back. */
  take(): number {
    this.size++
    const handle = this.free
    if (handle === 0) {
      this.reach(this.fresh)
      return this.fresh++
    }
    const { view } = this.chunkOf(handle)
    const at = this.placeOf(handle)
    this.free = view.getUint32(at, true)
    view.setUint32(at, 0, true)
    return handle
  }

  /** The handle means nothing from now on. */
  give(handle: number): void {
    this.chunkOf(handle).view.setUint32(this.placeOf(handle), this.free, true)
    this.free = handle
    this.size--
  }

  /** Above every handle ever taken. */
  get end(): number {
    return this.fresh
  }
}
