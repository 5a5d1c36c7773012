/** The serving order at one price, and the bound on conditional rounds: after 32 the rest sit the batch out. */

import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { Book } from '../../../engine/machine/book/book'
import { cross, DROP_ROUNDS_MAX } from '../../../engine/machine/book/cross'
import {
  type BookOrder,
  BUY,
  LIMIT,
  OrderPool,
  SELL,
  type Side,
} from '../../../engine/machine/book/order_pool'
import { Priority, sortByKey } from '../../../engine/machine/book/priority'
import { oracle } from './oracle'
import { oracleTerms, toOracle } from './random_books'

const SEED = new Uint8Array(32).fill(5)

function orders(count: number, sizes: number[], batches: number, pool: OrderPool): Int32Array {
  return Int32Array.from({ length: count }, (_, at) => {
    const order_id = new Uint8Array(createHash('md5').update(`order ${at}`).digest())
    const lots = sizes[(at * 7) % sizes.length]!
    const order: BookOrder = {
      side: BUY,
      kind: LIMIT,
      tick: 5,
      lots,
      min_fill: 0,
      arrival_batch: 1 + ((at * 13) % batches),
      order_id,
    }
    return pool.take(order)
  })
}

/** Rule 5 of matching.md, word by word. */
function served(pool: OrderPool, handles: Int32Array): number[] {
  const tie = (handle: number) =>
    createHash('sha256').update('tacit/tie/v1').update(SEED).update(pool.orderId(handle)).digest('hex')
  return [...handles].sort(
    (a, b) =>
      pool.arrival_batch[a]! - pool.arrival_batch[b]! ||
      pool.remaining[b]! - pool.remaining[a]! ||
      (tie(a) < tie(b) ? -1 : 1),
  )
}

test('older, then larger, then by hash: for short and long levels, small and huge sizes, few and many ties', () => {
  const size = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }))
  const levels = fc.record({
    count: fc.integer({ min: 1, max: 200 }),
    sizes: fc.array(size, { minLength: 1, maxLength: 40 }),
    batches: fc.integer({ min: 1, max: 5 }),
  })
  fc.assert(
    fc.property(levels, ({ count, sizes, batches }) => {
      const pool = new OrderPool(1_024)
      const list = orders(count, sizes, batches, pool)
      const expected = served(pool, list)
      const priority = new Priority(pool, { seed: SEED })
      const sorted = list.slice()
      priority.sort(sorted, 0, count)
      expect([...sorted]).toEqual(expected)
      priority.sort(sorted, 0, count)
      expect([...sorted]).toEqual(expected)
    }),
    { numRuns: 300 },
  )
})

test('orders whose hashes begin with the same 48 bits are served by the rest of them', () => {
  const pool = new OrderPool(8)
  const words = (first: number) => new Uint8Array(new Uint32Array([first, 0, 0, 0]).buffer)
  const order = { side: BUY, kind: LIMIT, tick: 5, lots: 3, min_fill: 0, arrival_batch: 1 } as const
  // SHA-256 of the domain, SEED and the last two of these ids: 16de689f3760676… and 16de689f37607c1…
  const list = [1, 2, 3, 4, 5, 6, 2_850_566, 27_498_541].map((first) =>
    pool.take({ ...order, order_id: words(first) }),
  )
  const expected = served(pool, Int32Array.from(list))
  expect(expected.indexOf(list.at(-1)!)).toBe(expected.indexOf(list.at(-2)!) + 1)
  for (const given of [list, list.toReversed(), expected, expected.toReversed()]) {
    const sorted = Int32Array.from(given)
    new Priority(pool, { seed: SEED }).sort(sorted, 0, sorted.length)
    expect([...sorted]).toEqual(expected)
  }
})

test('a seed of another length than 32 bytes is refused', () => {
  const pool = new OrderPool(8)
  const tied = orders(2, [3], 1, pool)
  expect(() => new Priority(pool, { seed: SEED.subarray(1) }).sort(tied, 0, 2)).toThrow('32 bytes')
})

test('auctions in turns do not take each other for their own', () => {
  const pool = new OrderPool(64)
  const list = orders(40, [3], 1, pool)
  const [one, other] = [new Priority(pool, { seed: SEED }), new Priority(pool, { seed: new Uint8Array(32) })]
  for (const priority of [one, other, one]) {
    const sorted = list.slice()
    priority.sort(sorted, 0, list.length)
    const same = priority === one
    expect([...sorted].join() === served(pool, list).join()).toBe(same)
  }
})

test('sorts by key, keeps the order of equal keys and touches nothing outside', () => {
  const key = fc.oneof(
    fc.integer({ min: 0, max: 3 }),
    fc.integer({ min: 0, max: 2 ** 20 }),
    fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  )
  fc.assert(
    fc.property(fc.array(key, { maxLength: 120 }), fc.integer({ min: 0, max: 5 }), (list, from) => {
      const handles = Int32Array.from({ length: from + list.length + 3 }, (_, at) => at)
      const around = Array.from({ length: from }, () => 5)
      const keys = Float64Array.from([...around, ...list, 7])
      sortByKey(handles, keys, from, list.length)
      const sorted = list.map((key, at) => ({ key, handle: from + at })).sort((a, b) => a.key - b.key)
      expect([...keys]).toEqual([...around, ...sorted.map(({ key }) => key), 7])
      const outside = [...handles.slice(0, from), ...handles.slice(from + list.length)]
      expect([...handles.slice(from, from + list.length)]).toEqual(sorted.map(({ handle }) => handle))
      expect(outside.every((handle) => handle < from || handle >= from + list.length)).toBeTrue()
    }),
    { numRuns: 500 },
  )
})

const terms = {
  reference: 1000,
  collar_bps: 5000,
  price_rule: 'std4' as const,
  volume_tolerance_bps: 0,
  seed: new Uint8Array(32).fill(7),
}

function order(
  at: number,
  side: Side,
  tick: number,
  lots: number,
  min_fill: number,
): BookOrder & { name: string } {
  const order_id = new Uint8Array(16).fill(at)
  return { name: `o${at}`, side, kind: LIMIT, tick, lots, min_fill, arrival_batch: 1, order_id }
}

/** `failing` all-or-none bids too large for the one ask, then one bid that fits and one all-or-none bid that fits. */
function conditional(failing: number) {
  const list = [order(1, SELL, 1000, 10, 0), order(2, BUY, 1001, 6, 0), order(3, BUY, 1000, 4, 4)]
  for (let at = 0; at < failing; at++) list.push(order(10 + at, BUY, 1100 + at, 11, 11))
  return list
}

function held(failing: number) {
  const book = new Book(new OrderPool(64), 1000)
  const handles = new Map(conditional(failing).map((o) => [o.name, book.add(o)]))
  return { ...cross(book, terms), handles }
}

describe('conditional rounds', () => {
  test('31 orders that cannot be served leave one by one and the fitting conditional order is served', () => {
    const { dropped, volume } = held(31)
    expect(dropped.length).toBe(31)
    expect(volume).toBe(10)
  })

  test('after 32 drops a conditional order sits the batch out even if it would fit', () => {
    const { buys, dropped, handles, volume } = held(32)
    expect(dropped.length).toBe(DROP_ROUNDS_MAX + 1)
    expect(dropped.at(-1)).toBe(handles.get('o3')!)
    expect([...buys.handles]).toEqual([handles.get('o2')!])
    expect(volume).toBe(6)
  })

  test('the bound ends an auction of many conditional orders as the oracle says', () => {
    for (const failing of [30, 31, 32, 33, 60]) {
      const expected = oracle(conditional(failing).map(toOracle), oracleTerms(terms))
      const result = held(failing)
      expect(BigInt(result.price!)).toBe(expected.price!)
      expect(BigInt(result.volume)).toBe(expected.volume)
      expect(BigInt(result.surplus)).toBe(expected.surplus)
    }
  })

  test('a conditional order that leaves the only crossing beyond the collar lets the reference drift', () => {
    const book = new Book(new OrderPool(8), 1000)
    book.add(order(1, SELL, 1000, 5, 5))
    book.add(order(2, SELL, 1600, 9, 0))
    book.add(order(3, BUY, 1700, 3, 0))
    expect(cross(book, terms)).toMatchObject({ price: null, drift: 1500, collar: { lo: 500, hi: 1500 } })
  })

  test('the limit of a dropped order no longer counts when pressure sets the price', () => {
    const list = [order(1, SELL, 800, 12, 0), order(2, BUY, 1600, 10, 0), order(3, BUY, 970, 12, 12)]
    const narrow = { ...terms, collar_bps: 500 }
    const book = new Book(new OrderPool(8), 1000)
    for (const o of list) book.add(o)
    const expected = oracle(list.map(toOracle), oracleTerms(narrow))
    expect(expected.price).toBe(1000n)
    expect(cross(book, narrow)).toMatchObject({ price: 1000, volume: 10, surplus: -2 })
  })
})
