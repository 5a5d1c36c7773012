/** Owns the resting orders of one instrument: adding, removing, reducing and reading them. Nothing matches here. */
import { BookSide } from './book_side'
import { type BookOrder, BUY, LIMIT, NO_ORDER, type OrderPool, type Side } from './order_pool'
import { BITMAP_STEP } from './tick_bitmap'

/** Highest limit price the book takes, in ticks. */
export const TICK_MAX = 2 ** 31
/** Highest sum of the lots of one side: beyond it sums of lots would round. */
export const SIDE_LOTS_MAX = Number.MAX_SAFE_INTEGER

/**
 * The book of one instrument. Books share the venue's pool, so a handle is unique over all of them. The book keeps no
 * accounts: who owns an order, and whether it would cross an own one, is the caller's index.
 */
export class Book {
  readonly buys: BookSide
  readonly sells: BookSide
  /** First of the ioc and fok orders, listed through `immediate_next`. */
  immediate = NO_ORDER
  /** Resting orders with a minimum fill (fok included). */
  conditional_orders = 0

  /** `center` is the price around which levels are dense; `window` a multiple of 32768 ticks. */
  constructor(
    readonly pool: OrderPool,
    center: number,
    window = BITMAP_STEP,
  ) {
    this.buys = new BookSide(pool, window)
    this.sells = new BookSide(pool, window)
    this.buys.base = this.sells.base = Math.max(0, center - (window >> 1))
  }

  /**
   * Adds an order and returns its handle. To keep the age of a replaced order, remove it and add the replacement with
   * the old `arrival_batch`: nothing else carries age. Throws RangeError on a tick, amount or side total out of range.
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
    if (order.kind !== LIMIT) this.linkImmediate(handle)
    return handle
  }

  /** Removes an order whole (cancel, expiry). The handle is free afterwards. */
  remove(handle: number): void {
    const { pool } = this
    if (!pool.alive(handle)) throw new RangeError('no such order')
    this.side(pool.side(handle)).remove(handle)
    if (pool.isConditional(handle)) this.conditional_orders--
    if (pool.kind(handle) !== LIMIT) this.unlinkImmediate(handle)
    pool.give(handle)
  }

  /** Takes `lots` off an order (a fill) and returns what remains; at 0 the order is removed and its handle free. */
  reduce(handle: number, lots: number): number {
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
  total(side: Side): number {
    return this.side(side).total
  }

  /**
   * Keeps the dense window around `tick` (the reference); call it when the reference moves. Costs nothing until the
   * price leaves the middle half of the window, and never changes what an auction decides.
   */
  recenter(tick: number): void {
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
