/**
 * Stores every resting order of the venue: one slot per order in typed arrays; the slot number is the order's handle. A freed
 * slot is reused, so a handle identifies an order only while the order rests.
 */

import type { Lots, Ticks } from '../../../protocol/units'

export const BUY = 0
export const SELL = 1
export type Side = typeof BUY | typeof SELL
/** The order types of protocol.md "Place", byte 113. */
export const LIMIT = 0
export const IOC = 1
export const FOK = 2
export type Kind = typeof LIMIT | typeof IOC | typeof FOK

/** No order: ends every list. Handles start at 1, so freshly zeroed memory reads as empty. */
export const NO_ORDER = 0
/**
 * Bytes of pool memory per order. Sixteen of them are touched only for orders that are ioc, fok or have a minimum fill.
 */
export const ORDER_BYTES = 57

const LIVE = 8
/** `min_fill` of the slot is valid. Without this flag it holds the value of an earlier order. */
const CONDITIONAL = 16
/** The order arrived after the close of the undecided batch: on no level. */
const LATER = 32

/** An order as the book stores it. `order_id` is 16 bytes and is copied. */
export type BookOrder = {
  side: Side
  kind: Kind
  /** Limit price, 1 to 2^31. */
  tick: Ticks
  /** The remainder, 1 to 2^53-1. */
  lots: Lots
  /** 0 = any; ignored for `fok`, whose minimum is `lots`. */
  min_fill: Lots
  /** Number of the first batch the order can take part in: its age. A replacement that keeps its age keeps this number. */
  arrival_batch: number
  order_id: Uint8Array
}

/**
 * Slots for orders in columns: an operation reads only the columns it needs, so the CPU caches hold more orders.
 * Preallocate with the venue's bound on live orders: untouched memory costs nothing, and growth (by doubling) copies every
 * array. Read the arrays through the pool each time, because growth replaces them.
 */
export class OrderPool {
  /** Neighbours in the list of a price level; `next` also threads the free slots. */
  next: Int32Array
  prev: Int32Array
  /** Neighbours in the book's list of ioc and fok orders. */
  immediate_next: Int32Array
  immediate_prev: Int32Array
  tick: Uint32Array
  arrival_batch: Uint32Array
  remaining: Float64Array
  /** Accessed only for conditional orders: most orders are not, and each array costs one more cache line. */
  private min_fill: Float64Array
  /** 16 bytes per slot, and the same as four words. */
  ids: Uint8Array
  private id: Uint32Array
  private flags: Uint8Array
  private free = NO_ORDER
  private fresh = 1
  /** Orders resting now, over all books. */
  size = 0

  constructor(public capacity = 1024) {
    const slots = capacity + 1
    this.next = new Int32Array(slots)
    this.prev = new Int32Array(slots)
    this.immediate_next = new Int32Array(slots)
    this.immediate_prev = new Int32Array(slots)
    this.tick = new Uint32Array(slots)
    this.arrival_batch = new Uint32Array(slots)
    this.remaining = new Float64Array(slots)
    this.min_fill = new Float64Array(slots)
    const ids = new ArrayBuffer(slots * 16)
    this.ids = new Uint8Array(ids)
    this.id = new Uint32Array(ids)
    this.flags = new Uint8Array(slots)
  }

  /** Stores an order and returns its handle. The book links it; nothing else calls this. */
  take(order: BookOrder): number {
    let handle = this.free
    if (handle !== NO_ORDER) this.free = this.next[handle]!
    else {
      if (this.fresh > this.capacity) this.grow()
      handle = this.fresh++
    }
    this.tick[handle] = order.tick
    this.arrival_batch[handle] = order.arrival_batch
    this.remaining[handle] = order.lots
    const min_fill = order.kind === FOK ? order.lots : order.min_fill
    if (min_fill > 0) this.min_fill[handle] = min_fill
    this.flags[handle] = order.side | (order.kind << 1) | LIVE | (min_fill > 0 ? CONDITIONAL : 0)
    this.copyId(order.order_id, handle * 4)
    this.size++
    return handle
  }

  /** Frees a slot. It stays readable until reused, because events are emitted after removal. */
  give(handle: number): void {
    this.flags[handle]! &= ~LIVE
    this.next[handle] = this.free
    this.free = handle
    this.size--
  }

  alive(handle: number): boolean {
    return ((this.flags[handle] ?? 0) & LIVE) !== 0
  }

  side(handle: number): Side {
    return (this.flags[handle]! & 1) as Side
  }

  kind(handle: number): Kind {
    return ((this.flags[handle]! >> 1) & 3) as Kind
  }

  isConditional(handle: number): boolean {
    return (this.flags[handle]! & CONDITIONAL) !== 0
  }

  isLater(handle: number): boolean {
    return (this.flags[handle]! & LATER) !== 0
  }

  setLater(handle: number, later: boolean): void {
    if (later) this.flags[handle]! |= LATER
    else this.flags[handle]! &= ~LATER
  }

  /** The minimum fill, 0 = any; for a fok order its amount. */
  minFill(handle: number): Lots {
    return this.isConditional(handle) ? this.min_fill[handle]! : 0
  }

  /** A copy of the 16-byte order id. */
  orderId(handle: number): Uint8Array {
    return this.ids.slice(handle * 16, handle * 16 + 16)
  }

  /** Copies the order id as four words to `into[to..to + 4)`, without allocating. */
  readId(handle: number, into: Uint32Array, to: number): void {
    const at = handle * 4
    for (let word = 0; word < 4; word++) into[to + word] = this.id[at + word]!
  }

  /** Compares order ids: negative when the id of `one` is smaller. */
  compareIds(one: number, other: number): number {
    const { ids } = this
    for (let at = 0; at < 16; at++) {
      const difference = ids[one * 16 + at]! - ids[other * 16 + at]!
      if (difference !== 0) return difference
    }
    return 0
  }

  /** Word by word, in a third of the time of `set` for 16 bytes. */
  private copyId(order_id: Uint8Array, at: number): void {
    const { id } = this
    for (let word = 0; word < 4; word++) {
      const byte = word * 4
      id[at + word] =
        order_id[byte]! |
        (order_id[byte + 1]! << 8) |
        (order_id[byte + 2]! << 16) |
        (order_id[byte + 3]! << 24)
    }
  }

  private grow(): void {
    const larger = new OrderPool(this.capacity * 2)
    larger.next.set(this.next)
    larger.prev.set(this.prev)
    larger.immediate_next.set(this.immediate_next)
    larger.immediate_prev.set(this.immediate_prev)
    larger.tick.set(this.tick)
    larger.arrival_batch.set(this.arrival_batch)
    larger.remaining.set(this.remaining)
    larger.min_fill.set(this.min_fill)
    larger.id.set(this.id)
    larger.flags.set(this.flags)
    const { free, fresh, size } = this
    Object.assign(this, larger, { free, fresh, size })
  }
}
