/** The laws of matching.md on random books, agreement with the slow oracle, the serving order, and conditional rounds. */

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { type AuctionCase, answerCase, orderIdBytes, readCases } from '../../../client/audit/audit_batch'
import { Book } from '../../../engine/machine/book/book'
import { type Cross, cross, DROP_ROUNDS_MAX } from '../../../engine/machine/book/cross'
import {
  type BookOrder,
  BUY,
  FOK,
  LIMIT,
  OrderPool,
  SELL,
  type Side,
} from '../../../engine/machine/book/order_pool'
import { Priority, sortByKey } from '../../../engine/machine/book/priority'
import {
  buildBook,
  demandAt,
  LAW_RUNS,
  LAW_SEED,
  LAW_TIMEOUT_MS,
  lesser,
  type OracleAnswer,
  oracle,
  oracleTerms,
  type RandomBook,
  random_book,
  supplyAt,
  toOracle,
} from './random_books'

setDefaultTimeout(LAW_TIMEOUT_MS)

type Named = BookOrder & { name: string }

/** The result with names for handles, in a form the oracle's answer has too. */
function named(result: Cross, names: Map<number, string>) {
  const fills = [result.buys, result.sells].flatMap(({ handles, lots }) =>
    [...handles].map((handle, at): [string, bigint] => [names.get(handle)!, BigInt(lots[at]!)]),
  )
  const name = (handle: number) => names.get(handle)!
  return {
    price: result.price === null ? null : BigInt(result.price),
    volume: BigInt(result.volume),
    surplus: BigInt(result.surplus),
    drift: result.drift === null ? null : BigInt(result.drift),
    fills,
    dropped: result.dropped.slice(0, 32).map(name),
    cancelled: result.remainders.map(name).sort(),
  }
}

function crossed(random: RandomBook, orders?: Named[]) {
  const { book, names } = buildBook(random, orders)
  return named(cross(book, random.terms), names)
}

function law(check: (random: RandomBook) => void) {
  fc.assert(fc.property(random_book, check), { numRuns: LAW_RUNS, seed: LAW_SEED })
}

function filledOrders(random: RandomBook) {
  const result = crossed(random)
  const by_name = new Map(random.orders.map((order) => [order.name, order]))
  const fills = result.fills.map(([name, lots]) => ({ order: by_name.get(name)!, lots }))
  return { ...result, fills }
}

const conditional = (order: Named) => order.kind === FOK || order.min_fill > 0

describe('the auction', () => {
  test('agrees with the oracle in price, volume, surplus, drift, every fill, every drop and every remainder', () => {
    law((random) => {
      const { resting: _, ...expected } = oracle(random.orders.map(toOracle), oracleTerms(random.terms))
      expect(crossed(random)).toEqual(expected)
    })
  })

  test('levels that fill whole, read together, give the fills of the oracle', () => {
    const orders = Array.from({ length: 31 }, (_, at): RandomBook['orders'][number] => ({
      name: `o${at}`,
      side: at === 30 ? SELL : BUY,
      kind: LIMIT,
      tick: at === 30 ? 100 : 101 + (at % 6),
      lots: at === 30 ? 29 : 1,
      min_fill: 0,
      arrival_batch: 1 + (at % 4),
      order_id: new Uint8Array(16).fill(at + 1),
    }))
    const terms: RandomBook['terms'] = {
      ...{ reference: null, collar_bps: null, price_rule: 'std4', volume_tolerance_bps: 0 },
      seed: new Uint8Array(32).fill(7),
    }
    const random = { orders, terms, center: 100 }
    const { resting: _, ...expected } = oracle(orders.map(toOracle), oracleTerms(terms))
    expect(expected.fills).toHaveLength(30)
    expect(crossed(random)).toEqual(expected)
  })

  test('buys as much as it sells, at one price inside every filled limit and the collar', () => {
    law((random) => {
      const { fills, price, volume } = filledOrders(random)
      const sum = (side: number) =>
        fills.reduce((total, f) => (f.order.side === side ? total + f.lots : total), 0n)
      expect(sum(0)).toBe(volume)
      expect(sum(1)).toBe(volume)
      if (price === null) return expect(volume).toBe(0n)
      for (const { order } of fills) {
        expect(order.side === BUY ? price <= BigInt(order.tick) : price >= BigInt(order.tick)).toBeTrue()
      }
      const { reference, collar_bps } = random.terms
      if (reference === null || collar_bps === null) return
      const distance = Math.abs(Number(price) - reference) * 10_000
      expect(distance).toBeLessThanOrEqual(reference * collar_bps)
    })
  })

  test('leaves no order unfilled that is better than a filled one on the same side, conditional orders aside', () => {
    law((random) => {
      const { fills } = filledOrders(random)
      const filled = new Set(fills.map(({ order }) => order))
      for (const order of random.orders) {
        if (filled.has(order) || conditional(order)) continue
        for (const { order: other } of fills) {
          if (other.side !== order.side) continue
          expect(order.side === BUY ? order.tick <= other.tick : order.tick >= other.tick).toBeTrue()
          const younger = order.arrival_batch >= other.arrival_batch
          if (order.tick === other.tick) expect(younger).toBeTrue()
        }
      }
    })
  })

  test('fills at most one order in part, and a conditional order at least to its minimum or not at all', () => {
    law((random) => {
      const { fills } = filledOrders(random)
      expect(fills.filter(({ order, lots }) => lots < BigInt(order.lots)).length).toBeLessThanOrEqual(1)
      for (const { order, lots } of fills) {
        const minimum = order.kind === FOK ? order.lots : Math.min(order.min_fill, order.lots)
        expect(lots).toBeGreaterThanOrEqual(BigInt(minimum))
      }
    })
  })

  test('reaches the greatest volume of any tick over the orders left after the drops', () => {
    law((random) => {
      const { book, names } = buildBook(random)
      const result = cross(book, random.terms)
      const out = new Set(result.dropped.map((handle) => names.get(handle)!))
      const left = random.orders.filter((order) => !out.has(order.name)).map(toOracle)
      const { price_rule, volume_tolerance_bps } = random.terms
      if (result.price === null) return
      let greatest = 0n
      const { lo, hi } = result.collar ?? { lo: 0, hi: Number.POSITIVE_INFINITY }
      for (const price of new Set(left.flatMap((o) => [o.price, o.price + 1n]).concat(BigInt(lo)))) {
        if (price < BigInt(lo) || Number(price) > hi) continue
        const volume = lesser(demandAt(left, price), supplyAt(left, price))
        if (volume > greatest) greatest = volume
      }
      const tolerated = price_rule === 'ref' ? BigInt(volume_tolerance_bps) : 0n
      expect(BigInt(result.volume) * 10_000n).toBeGreaterThanOrEqual(greatest * (10_000n - tolerated))
    })
  })

  test('does not depend on the order in which the orders came', () => {
    fc.assert(
      fc.property(random_book, fc.infiniteStream(fc.nat()), (random, keys) => {
        const shuffled = random.orders.map((order) => ({ order, key: keys.next().value! }))
        shuffled.sort((a, b) => a.key - b.key)
        const permuted = crossed(
          random,
          shuffled.map(({ order }) => order),
        )
        expect(permuted).toEqual(crossed(random))
      }),
      { numRuns: LAW_RUNS, seed: LAW_SEED },
    )
  })

  test('changes nothing until it is applied, and reports exactly the immediate orders with a remainder', () => {
    law((random) => {
      const { book, names } = buildBook(random)
      const before = [...names.keys()].map((handle) => book.get(handle))
      const result = cross(book, random.terms)
      expect([...names.keys()].map((handle) => book.get(handle))).toEqual(before)
      for (const { handles, lots } of [result.buys, result.sells]) {
        for (const [at, handle] of handles.entries()) book.reduce(handle, lots[at]!)
      }
      const alive = [...names.keys()].filter((handle) => book.pool.alive(handle))
      const immediate = alive.filter((handle) => book.pool.kind(handle) !== LIMIT)
      expect(immediate.sort()).toEqual(result.remainders.toSorted())
    })
  })
})

const FILE = `${import.meta.dir}/../../../../shared/vectors/auction.json`
const present = existsSync(FILE)
if (!present)
  console.log('auction vectors: skipped, ../shared/vectors/auction.json is not part of the repository')

type Published = {
  id: string
  expect: Record<string, unknown>
  std4?: { price: number | null; volume: number }
}
const text = present ? readFileSync(FILE, 'utf8') : '{}'
const file = JSON.parse(text) as { own?: Published[]; external?: Published[] }
const cases = new Map(readCases(text).map((auction) => [auction.id, auction]))

function byOracle(auction: AuctionCase): OracleAnswer {
  const { collar_bps, price_rule, reference, seed, slot, volume_tolerance_bps } = auction
  const orders = auction.orders.map((order) => ({
    id: order.id,
    tie: orderIdBytes(order.id),
    side: order.side,
    price: BigInt(order.tick),
    qty: order.lots,
    min_fill: order.min_fill,
    immediate: order.immediate,
    batch: BigInt(order.arrival_batch),
    expiry: BigInt(order.expiry_slot),
  }))
  return oracle(orders, {
    reference: reference === null ? null : BigInt(reference),
    collar_bps: reference === null || collar_bps === null ? null : BigInt(collar_bps),
    price_rule,
    volume_tolerance_bps: BigInt(volume_tolerance_bps),
    seed,
    slot: BigInt(slot),
  })
}

function printed(answer: OracleAnswer) {
  const text_of = ([id, lots]: [string, bigint]) => [id, String(lots)]
  return {
    price: answer.price === null ? null : Number(answer.price),
    volume: String(answer.volume),
    surplus: String(answer.surplus),
    fills: Object.fromEntries(answer.fills.map(text_of)),
    cancelled: answer.cancelled,
    resting: Object.fromEntries(answer.resting.map(text_of)),
  }
}

describe.skipIf(!present)('auction cases', () => {
  test('there are 42 worked and 58 published ones', () => {
    expect(file.own?.length).toBe(42)
    expect(file.external?.length).toBe(58)
  })

  for (const { id, expect: expected } of file.own ?? []) {
    test(`${id} is answered as worked out by hand`, () => {
      const auction = cases.get(id)!
      expect(printed(byOracle(auction))).toEqual(expected as ReturnType<typeof printed>)
      if (id === 'r0-34') expect(answerCase(auction)).toHaveProperty('refused')
      else expect(answerCase(auction)).toEqual({ id, ...expected } as ReturnType<typeof answerCase>)
    })
  }

  for (const { id, expect: expected, std4 } of file.external ?? []) {
    test(`${id} has the published volume and the price of the standard rule`, () => {
      const auction = cases.get(id)!
      const answer = answerCase(auction)
      expect(answer).toEqual({ id, ...printed(byOracle(auction)) })
      expect(answer).toMatchObject({ price: std4!.price, volume: String(expected['volume']) })
    })
  }
})

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
function priorityConditional(failing: number) {
  const list = [order(1, SELL, 1000, 10, 0), order(2, BUY, 1001, 6, 0), order(3, BUY, 1000, 4, 4)]
  for (let at = 0; at < failing; at++) list.push(order(10 + at, BUY, 1100 + at, 11, 11))
  return list
}

function held(failing: number) {
  const book = new Book(new OrderPool(64), 1000)
  const handles = new Map(priorityConditional(failing).map((o) => [o.name, book.add(o)]))
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
      const expected = oracle(priorityConditional(failing).map(toOracle), oracleTerms(terms))
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
