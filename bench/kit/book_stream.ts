/** Records and replays the stream of book operations of the book benchmark. */
import { Book } from '../../engine/machine/book/book'
import { type Cross, cross } from '../../engine/machine/book/cross'
import { type BookOrder, BUY, LIMIT, OrderPool, SELL, type Side } from '../../engine/machine/book/order_pool'
import { random } from './figures'

export const OPERATIONS_PER_BATCH = 1_000
/** Ticks each side spreads over: about fifty orders at a price. */
const depthOf = (resting: number) => Math.max(50, resting / 100)

/**
 * The marketable orders of a batch are all of one side and take about three makers each, so the book keeps its size.
 * `handle[i]` 0 is an add of (side, tick, lots), any other value the cancel of that handle.
 */
export type BookStream = {
  operations: number
  prefill: number
  handle: Int32Array
  /** Handle that an add got. */
  added: Int32Array
  side: Uint8Array
  tick: Uint32Array
  lots: Uint32Array
}

/**
 * Records a stream by playing it once: the pool is deterministic, so the handles are the same in every replay.
 */
export function bookStream(resting: number, operations: number, center: number): BookStream {
  const length = resting + operations
  const stream: BookStream = {
    operations,
    prefill: resting,
    handle: new Int32Array(length),
    added: new Int32Array(length),
    side: new Uint8Array(length),
    tick: new Uint32Array(length),
    lots: new Uint32Array(length),
  }
  const next = random(42)
  for (let at = 0; at < length; at++) write(stream, at, at < resting ? 0 : next() % 100, center, next)
  const book = prefilled(stream, center)
  const live = new LiveSet()
  for (let handle = 1; handle <= resting; handle++) live.add(handle)
  for (let at = 0; at < resting; at++) stream.added[at] = at + 1
  const order = blankOrder()
  for (let at = resting; at < length; at++) {
    if (stream.handle[at] === 0) {
      const handle = book.add(readAdd(stream, at, order))
      stream.added[at] = handle
      live.add(handle)
    } else {
      const handle = live.pick(next())
      stream.handle[at] = handle
      live.remove(handle)
      book.remove(handle)
    }
    if ((at - resting + 1) % OPERATIONS_PER_BATCH === 0) {
      const result = cross(book, termsAround(center))
      applyFills(book, result, (handle) => live.remove(handle))
      order.arrival_batch++
    }
  }
  return stream
}

export function prefilled(stream: BookStream, center: number): Book {
  const book = new Book(new OrderPool(stream.prefill * 2), center)
  const order = blankOrder()
  for (let at = 0; at < stream.prefill; at++) book.add(readAdd(stream, at, order))
  return book
}

/** Plays the operations after the prefill; returns the nanoseconds each auction with its fills took. */
export function replay(book: Book, stream: BookStream, center: number): number[] {
  const order = blankOrder()
  const crosses: number[] = []
  const { handle, operations, prefill } = stream
  for (let at = prefill; at < prefill + operations; at++) {
    if (handle[at] === 0) book.add(readAdd(stream, at, order))
    else book.remove(handle[at]!)
    if ((at - prefill + 1) % OPERATIONS_PER_BATCH === 0) {
      const started = Bun.nanoseconds()
      applyFills(book, cross(book, termsAround(center)), undefined)
      crosses.push(Bun.nanoseconds() - started)
      order.arrival_batch++
    }
  }
  return crosses
}

function write(stream: BookStream, at: number, dice: number, center: number, next: () => number): void {
  const marketable = dice >= 90
  const batch = Math.floor((at - stream.prefill) / OPERATIONS_PER_BATCH)
  const side: Side = (marketable ? batch : next()) % 2 === 0 ? BUY : SELL
  const depth = depthOf(stream.prefill)
  const away = 1 + (next() % depth)
  const reach = marketable ? -(depth / 2 + (away >> 1)) : away
  stream.handle[at] = dice >= 60 && dice < 90 ? -1 : 0
  stream.side[at] = side
  stream.tick[at] = side === BUY ? center - reach : center + reach
  stream.lots[at] = (1 + (next() % 100)) * (marketable ? 3 : 1)
}

export function blankOrder(): BookOrder {
  return {
    side: BUY,
    kind: LIMIT,
    tick: 1,
    lots: 1,
    min_fill: 0,
    arrival_batch: 1,
    order_id: new Uint8Array(16),
  }
}

/** Fills the given order object, so that the stream itself allocates nothing. */
export function readAdd(stream: BookStream, at: number, order: BookOrder): BookOrder {
  order.side = stream.side[at] as Side
  order.tick = stream.tick[at]!
  order.lots = stream.lots[at]!
  order.order_id[0] = at
  order.order_id[1] = at >> 8
  order.order_id[2] = at >> 16
  return order
}

export function termsAround(reference: number) {
  return {
    reference,
    collar_bps: 1_000,
    price_rule: 'std4' as const,
    volume_tolerance_bps: 0,
    seed: new Uint8Array(32),
  }
}

export function applyFills(book: Book, result: Cross, gone: ((handle: number) => void) | undefined): void {
  for (const { handles, lots } of [result.buys, result.sells]) {
    for (let at = 0; at < handles.length; at++) {
      if (book.reduce(handles[at]!, lots[at]!) === 0) gone?.(handles[at]!)
    }
  }
}

/** Live handles with uniform picking. */
class LiveSet {
  private readonly list: number[] = []
  private readonly place = new Map<number, number>()

  add(handle: number): void {
    this.place.set(handle, this.list.length)
    this.list.push(handle)
  }

  remove(handle: number): void {
    const at = this.place.get(handle)!
    const last = this.list.pop()!
    if (last !== handle) {
      this.list[at] = last
      this.place.set(last, at)
    }
    this.place.delete(handle)
  }

  pick(random_value: number): number {
    return this.list[random_value % this.list.length]!
  }
}
