/** Stores the resting orders of one instrument: add, remove, reduce and read. Matches nothing. */
import type { Lots, Ticks } from '../../../protocol/units'
import { type BookOrder, BUY, LIMIT, NO_ORDER, type OrderPool, type Side } from './order_pool'

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

/** Highest limit price the book accepts, in ticks. */
export const TICK_MAX = 2 ** 31
/** Highest sum of lots of one side: beyond it sums would be rounded. */
export const SIDE_LOTS_MAX = Number.MAX_SAFE_INTEGER

/**
 * One side of a book: linked lists of orders per limit price. Ticks inside a window have a dense level each. Orders outside
 * are in two plain lists, below and above, which an auction scans only when its prices reach that far.
 */
export class BookSide {
  /** Tick of the first level of the window. */
  base = 0
  /** First order of each level. Position in a list is not priority: the auction sorts by batch, size and hash. */
  private readonly head: Int32Array
  private readonly level_lots: Float64Array
  private readonly occupied: TickBitmap
  /** First orders of the lists below and above the window. */
  below = NO_ORDER
  above = NO_ORDER
  /** First order that arrived after the close: on no level, so no auction sees it. */
  later = NO_ORDER
  /** A batch is closed and undecided: orders of later batches stay off the levels. */
  private has_closed = false
  private closed_batch = 0
  /** Sum of the resting lots of the side. */
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
    if (this.has_closed && pool.arrival_batch[handle]! > this.closed_batch) {
      pool.setLater(handle, true)
      first = this.later
      this.later = handle
    } else if (at < 0) {
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
    const lots = pool.remaining[handle]!
    const before = pool.prev[handle]!
    const after = pool.next[handle]!
    const at = pool.tick[handle]! - this.base
    this.total -= lots
    pool.remaining[handle] = 0
    if (after !== NO_ORDER) pool.prev[after] = before
    if (before !== NO_ORDER) pool.next[before] = after
    if (pool.isLater(handle)) {
      if (before === NO_ORDER) this.later = after
    } else if (at < 0) {
      if (before === NO_ORDER) this.below = after
    } else if (at >= this.window) {
      if (before === NO_ORDER) this.above = after
    } else {
      this.level_lots[at]! -= lots
      if (before !== NO_ORDER) return
      this.head[at] = after
      if (after === NO_ORDER) this.occupied.clear(at)
    }
  }

  /** Subtracts `lots` from the remainder of an order, which stays linked even at zero. */
  reduce(handle: number, lots: Lots): void {
    this.total -= lots
    this.pool.remaining[handle]! -= lots
    const at = this.pool.tick[handle]! - this.base
    if (at >= 0 && at < this.window && !this.pool.isLater(handle)) this.level_lots[at]! -= lots
  }

  close(batch: number): void {
    this.has_closed = true
    this.closed_batch = batch
  }

  /** Whether an order that arrived for batch `arrival_batch` is a member of the closed, undecided batch. */
  isMember(arrival_batch: number): boolean {
    return this.has_closed && arrival_batch <= this.closed_batch
  }

  /** Puts later orders on their levels and returns them: the closed batch is decided. */
  open(): number[] {
    const later = [...this.handles(this.later)]
    this.has_closed = false
    this.later = NO_ORDER
    for (const handle of later) {
      this.pool.setLater(handle, false)
      this.total -= this.pool.remaining[handle]!
      this.add(handle)
    }
    return later
  }

  inWindow(tick: number): boolean {
    return tick >= this.base && tick < this.base + this.window
  }

  /** First order of the level at a tick of the window. */
  headAt(tick: number): number {
    return this.head[tick - this.base]!
  }

  /** Sum of lots of the level at a tick of the window. */
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

  /** Moves the window: shifts the levels that stay in it, then adds again the orders that leave, enter or remain outside. */
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

/**
 * The book of one instrument. All books share one pool, so a handle is unique across books. The book stores no accounts:
 * owners and the self-cross check are indexes of the caller.
 */
export class Book {
  readonly buys: BookSide
  readonly sells: BookSide
  /** First ioc or fok order of the list through `immediate_next`. */
  immediate = NO_ORDER
  /** Resting orders with a minimum fill (fok included). */
  conditional_orders = 0

  /** @param center price around which levels are dense; `window` is a multiple of 32,768 ticks */
  constructor(
    readonly pool: OrderPool,
    center: Ticks,
    window = BITMAP_STEP,
  ) {
    this.buys = new BookSide(pool, window)
    this.sells = new BookSide(pool, window)
    this.buys.base = this.sells.base = Math.max(0, center - (window >> 1))
  }

  /**
   * Adds an order and returns its handle. To keep the age of a replaced order, remove it and add the replacement with
   * the old `arrival_batch`, which alone determines age.
   * @throws RangeError for a tick, amount or side total out of range
   */
  add(order: BookOrder): number {
    const side = this.side(order.side)
    const { lots, tick } = order
    if (!(tick >= 1 && tick <= TICK_MAX && Math.floor(tick) === tick))
      throw new RangeError('tick out of range')
    if (!(lots >= 1 && lots <= SIDE_LOTS_MAX && Math.floor(lots) === lots))
      throw new RangeError('lots out of range')
    if (lots > SIDE_LOTS_MAX - side.total) throw new RangeError('side total out of range')
    if (order.order_id.length !== 16) throw new RangeError('order id is not 16 bytes')
    const { pool } = this
    const handle = pool.take(order)
    side.add(handle)
    if (pool.isConditional(handle)) this.conditional_orders++
    if (order.kind !== LIMIT && !pool.isLater(handle)) this.linkImmediate(handle)
    return handle
  }

  /** Fixes the membership of batch `batch`: orders that arrive later wait outside the levels until `open`. */
  close(batch: number): void {
    this.buys.close(batch)
    this.sells.close(batch)
  }

  open(): void {
    for (const handle of [...this.buys.open(), ...this.sells.open()]) {
      if (this.pool.kind(handle) !== LIMIT) this.linkImmediate(handle)
    }
  }

  /** Whether an order that arrived for batch `arrival_batch` is a member of the closed, undecided batch. */
  isMember(arrival_batch: number): boolean {
    return this.buys.isMember(arrival_batch)
  }

  /** Removes an order (cancel, expiry) and frees its handle. */
  remove(handle: number): void {
    const { pool } = this
    if (!pool.alive(handle)) throw new RangeError('no such order')
    const side = this.side(pool.side(handle))
    side.remove(handle)
    if (pool.isConditional(handle)) this.conditional_orders--
    if (pool.kind(handle) !== LIMIT && !pool.isLater(handle)) this.unlinkImmediate(handle)
    pool.give(handle)
  }

  /** Subtracts `lots` (a fill) and returns the remaining lots; at 0 removes the order and frees its handle. */
  reduce(handle: number, lots: Lots): Lots {
    const { pool } = this
    if (!pool.alive(handle)) throw new RangeError('no such order')
    const rest = pool.remaining[handle]! - lots
    if (!(lots >= 1 && rest >= 0)) throw new RangeError('lots out of range')
    if (rest === 0) this.remove(handle)
    else this.side(pool.side(handle)).reduce(handle, lots)
    return rest
  }

  /** A copy of a resting order, or undefined. `min_fill` of a fok order is its amount. */
  get(handle: number): BookOrder | undefined {
    const { pool } = this
    if (!pool.alive(handle)) return undefined
    return {
      side: pool.side(handle),
      kind: pool.kind(handle),
      tick: pool.tick[handle]!,
      lots: pool.remaining[handle]!,
      min_fill: pool.minFill(handle),
      arrival_batch: pool.arrival_batch[handle]!,
      order_id: pool.orderId(handle),
    }
  }

  /** Lots resting on a side. */
  total(side: Side): Lots {
    return this.side(side).total
  }

  /**
   * Keeps the dense window around `tick`; call it when the reference moves. Does nothing while the tick is in the middle
   * half of the window. Never changes the result of an auction.
   */
  recenter(tick: Ticks): void {
    const { base, window } = this.buys
    if (tick >= base + (window >> 2) && tick < base + window - (window >> 2)) return
    const moved = Math.max(0, tick - (window >> 1))
    if (moved === base) return
    this.buys.slide(moved)
    this.sells.slide(moved)
  }

  private side(side: Side): BookSide {
    return side === BUY ? this.buys : this.sells
  }

  private linkImmediate(handle: number): void {
    const { pool } = this
    const first = this.immediate
    pool.immediate_next[handle] = first
    pool.immediate_prev[handle] = NO_ORDER
    if (first !== NO_ORDER) pool.immediate_prev[first] = handle
    this.immediate = handle
  }

  private unlinkImmediate(handle: number): void {
    const { pool } = this
    const after = pool.immediate_next[handle]!
    const before = pool.immediate_prev[handle]!
    if (after !== NO_ORDER) pool.immediate_prev[after] = before
    if (before !== NO_ORDER) pool.immediate_next[before] = after
    else this.immediate = after
  }
}
