/** The prices at which an account has live orders on one side of an instrument, each with how many: ascending ticks. */

const LEVELS_MIN = 4
const NOTHING = new Uint32Array(0)

/**
 * Tick and count of each level in a row. Flat, as a map of thousands of levels that is written at each order would be
 * walked whole by every collection of garbage; the levels after a new one are moved at once.
 */
export class PriceLevels {
  private levels: Uint32Array = NOTHING
  private count = 0

  /** Levels at which orders lie. */
  get size(): number {
    return this.count
  }

  /** The lowest tick at which an order lies, one order at `except` left out. */
  lowest(except?: number): number | undefined {
    const at = this.isAlone(0, except) ? 1 : 0
    return at < this.count ? this.levels[2 * at] : undefined
  }

  /** The highest, likewise. */
  highest(except?: number): number | undefined {
    const at = this.isAlone(this.count - 1, except) ? this.count - 2 : this.count - 1
    return at >= 0 ? this.levels[2 * at] : undefined
  }

  add(tick: number): void {
    const at = this.placeOf(tick)
    if (this.isAt(at, tick)) {
      this.levels[2 * at + 1]! += 1
      return
    }
    if (2 * this.count === this.levels.length) this.resize(Math.max(LEVELS_MIN, 2 * this.count))
    this.levels.copyWithin(2 * at + 2, 2 * at, 2 * this.count)
    this.levels[2 * at] = tick
    this.levels[2 * at + 1] = 1
    this.count += 1
  }

  /** @throws Error where no order lies. */
  remove(tick: number): void {
    const at = this.placeOf(tick)
    if (!this.isAt(at, tick)) throw new Error('no order lies at this price')
    this.levels[2 * at + 1]! -= 1
    if (this.levels[2 * at + 1]! > 0) return
    this.levels.copyWithin(2 * at, 2 * at + 2, 2 * this.count)
    this.count -= 1
    if (this.levels.length > 2 * LEVELS_MIN && 8 * this.count <= this.levels.length)
      this.resize(this.levels.length / 4)
  }

  private isAlone(at: number, tick: number | undefined): boolean {
    return tick !== undefined && this.isAt(at, tick) && this.levels[2 * at + 1] === 1
  }

  private isAt(at: number, tick: number): boolean {
    return at >= 0 && at < this.count && this.levels[2 * at] === tick
  }

  /** The first level at `tick` or above it. */
  private placeOf(tick: number): number {
    let from = 0
    let to = this.count
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.levels[2 * middle]! < tick) from = middle + 1
      else to = middle
    }
    return from
  }

  private resize(levels: number): void {
    const resized = new Uint32Array(2 * levels)
    resized.set(this.levels.subarray(0, 2 * this.count))
    this.levels = resized
  }
}
