/**
 * Owns one side of a book: the lists of orders per limit price. Ticks inside a window have a dense level each; orders
 * outside wait in two plain lists, below and above, which only an auction that reaches so far looks at.
 */
import { NO_ORDER, type OrderPool } from './order_pool'
import { TickBitmap } from './tick_bitmap'

export class BookSide {
  /** Tick of the first level of the window. */
  base = 0
  /** First order of each level. Position in a list is no priority: the auction sorts by batch, size and hash. */
  private readonly head: Int32Array
  private readonly level_lots: Float64Array
  private readonly occupied: TickBitmap
  /** Heads of the lists of orders whose limit lies below or above the window. */
  below = NO_ORDER
  above = NO_ORDER
  /** All resting lots of the side. */
  total = 0

  constructor(
    private readonly pool: OrderPool,
    readonly window: number,
  ) {
    this.head = new Int32Array(window)
    this.level_lots = new Float64Array(window)
    this.occupied = new TickBitmap(window)
  }

  add(handle: number): void {
    const { pool } = this
    const lots = pool.remaining[handle]!
    this.total += lots
    const at = pool.tick[handle]! - this.base
    let first: number
    if (at < 0) {
      first = this.below
      this.below = handle
    } else if (at >= this.window) {
      first = this.above
      this.above = handle
    } else {
      first = this.head[at]!
      this.head[at] = handle
      this.level_lots[at]! += lots
      if (first === NO_ORDER) this.occupied.set(at)
    }
    pool.next[handle] = first
    pool.prev[handle] = NO_ORDER
    if (first !== NO_ORDER) pool.prev[first] = handle
  }

  remove(handle: number): void {
    const { pool } = this
    this.reduce(handle, pool.remaining[handle]!)
    const before = pool.prev[handle]!
    const after = pool.next[handle]!
    if (after !== NO_ORDER) pool.prev[after] = before
    if (before !== NO_ORDER) {
      pool.next[before] = after
      return
    }
    const at = pool.tick[handle]! - this.base
    if (at < 0) this.below = after
    else if (at >= this.window) this.above = after
    else {
      this.head[at] = after
      if (after === NO_ORDER) this.occupied.clear(at)
    }
  }

  /** Takes `lots` off what remains of an order, which stays linked even at zero. */
  reduce(handle: number, lots: number): void {
    this.total -= lots
    this.pool.remaining[handle]! -= lots
    const at = this.pool.tick[handle]! - this.base
    if (at >= 0 && at < this.window) this.level_lots[at]! -= lots
  }

  inWindow(tick: number): boolean {
    return tick >= this.base && tick < this.base + this.window
  }

  /** First order and total of the level at a tick of the window. */
  headAt(tick: number): number {
    return this.head[tick - this.base]!
  }

  lotsAt(tick: number): number {
    return this.level_lots[tick - this.base]!
  }

  /** Lowest occupied tick of the window at or above `tick`, or -1. */
  nextTick(tick: number): number {
    const at = this.occupied.next(tick - this.base)
    return at < 0 ? -1 : at + this.base
  }

  /** Highest occupied tick of the window at or below `tick`, or -1. */
  previousTick(tick: number): number {
    const at = this.occupied.previous(tick - this.base)
    return at < 0 ? -1 : at + this.base
  }

  /** Moves the window: shifts the levels that stay, lists the orders that leave, files those that enter. */
  slide(base: number): void {
    const { head, level_lots, occupied, window } = this
    const outside = [...this.handles(this.below), ...this.handles(this.above)]
    const shift = base - this.base
    for (let at = occupied.next(0); at >= 0; at = occupied.next(at + 1)) {
      if (at - shift >= 0 && at - shift < window) continue
      outside.push(...this.handles(head[at]!))
      head[at] = NO_ORDER
      level_lots[at] = 0
    }
    head.copyWithin(Math.max(0, -shift), Math.max(0, shift), window - Math.max(0, -shift))
    level_lots.copyWithin(Math.max(0, -shift), Math.max(0, shift), window - Math.max(0, -shift))
    const vacated = shift > 0 ? [Math.max(0, window - shift), window] : [0, Math.min(window, -shift)]
    head.fill(NO_ORDER, vacated[0], vacated[1])
    level_lots.fill(0, vacated[0], vacated[1])
    occupied.reset()
    for (let at = 0; at < window; at++) if (head[at] !== NO_ORDER) occupied.set(at)
    this.base = base
    this.below = NO_ORDER
    this.above = NO_ORDER
    for (const handle of outside) {
      this.total -= this.pool.remaining[handle]!
      this.add(handle)
    }
  }

  /** The orders of one list, from its head. */
  *handles(head: number): Generator<number> {
    for (let handle = head; handle !== NO_ORDER; handle = this.pool.next[handle]!) yield handle
  }
}
