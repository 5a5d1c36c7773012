/**
 * Tracks which positions of a window are occupied: one bit each in three levels of 32-bit words, so finding the next or
 * previous occupied position takes a handful of loads.
 */

/** Windows are multiples of this: one top word covers 32^3 positions. */
export const BITMAP_STEP = 32_768

export class TickBitmap {
  private readonly low: Int32Array
  private readonly middle: Int32Array
  private readonly top: Int32Array

  /** `size` is a multiple of BITMAP_STEP. */
  constructor(readonly size: number) {
    this.low = new Int32Array(size >> 5)
    this.middle = new Int32Array(size >> 10)
    this.top = new Int32Array(size >> 15)
  }

  set(at: number): void {
    this.low[at >> 5]! |= 1 << (at & 31)
    this.middle[at >> 10]! |= 1 << ((at >> 5) & 31)
    this.top[at >> 15]! |= 1 << ((at >> 10) & 31)
  }

  clear(at: number): void {
    const low = this.low[at >> 5]! & ~(1 << (at & 31))
    this.low[at >> 5] = low
    if (low !== 0) return
    const middle = this.middle[at >> 10]! & ~(1 << ((at >> 5) & 31))
    this.middle[at >> 10] = middle
    if (middle === 0) this.top[at >> 15]! &= ~(1 << ((at >> 10) & 31))
  }

  reset(): void {
    this.low.fill(0)
    this.middle.fill(0)
    this.top.fill(0)
  }

  /** The lowest occupied position at or above `at`, or -1. */
  next(at: number): number {
    if (at >= this.size) return -1
    const start = Math.max(at, 0)
    const low = firstFrom(this.low[start >> 5]!, start & 31)
    if (low >= 0) return (start & ~31) | low
    const word = start >> 5
    const middle = firstAfter(this.middle[word >> 5]!, word & 31)
    if (middle >= 0) return this.lowestIn((word & ~31) | middle)
    const group = start >> 10
    let top = firstAfter(this.top[group >> 5]!, group & 31)
    let block = group >> 5
    while (top < 0) {
      if (++block >= this.top.length) return -1
      top = firstFrom(this.top[block]!, 0)
    }
    const found = (block << 5) | top
    return this.lowestIn((found << 5) | firstFrom(this.middle[found]!, 0))
  }

  /** The highest occupied position at or below `at`, or -1. */
  previous(at: number): number {
    if (at < 0) return -1
    const start = Math.min(at, this.size - 1)
    const low = lastTo(this.low[start >> 5]!, start & 31)
    if (low >= 0) return (start & ~31) | low
    const word = start >> 5
    const middle = lastBefore(this.middle[word >> 5]!, word & 31)
    if (middle >= 0) return this.highestIn((word & ~31) | middle)
    const group = start >> 10
    let top = lastBefore(this.top[group >> 5]!, group & 31)
    let block = group >> 5
    while (top < 0) {
      if (--block < 0) return -1
      top = lastTo(this.top[block]!, 31)
    }
    const found = (block << 5) | top
    return this.highestIn((found << 5) | lastTo(this.middle[found]!, 31))
  }

  private lowestIn(word: number): number {
    return (word << 5) | firstFrom(this.low[word]!, 0)
  }

  private highestIn(word: number): number {
    return (word << 5) | lastTo(this.low[word]!, 31)
  }
}

/** Lowest set bit of `word` at or above `bit`, or -1. */
function firstFrom(word: number, bit: number): number {
  const rest = word & (-1 << bit)
  return rest === 0 ? -1 : 31 - Math.clz32(rest & -rest)
}

function firstAfter(word: number, bit: number): number {
  return bit === 31 ? -1 : firstFrom(word, bit + 1)
}

/** Highest set bit of `word` at or below `bit`, or -1. */
function lastTo(word: number, bit: number): number {
  const rest = word & (-1 >>> (31 - bit))
  return rest === 0 ? -1 : 31 - Math.clz32(rest)
}

function lastBefore(word: number, bit: number): number {
  return bit === 0 ? -1 : lastTo(word, bit - 1)
}
