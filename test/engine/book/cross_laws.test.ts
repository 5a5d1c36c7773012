/** The laws of matching.md on random books, and agreement with the slow oracle. */

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { type AuctionCase, answerCase, orderIdBytes, readCases } from '../../../client/audit/auction_cases'
import { type Cross, cross } from '../../../engine/machine/book/cross'
import { type BookOrder, BUY, FOK, LIMIT } from '../../../engine/machine/book/order_pool'
import { demandAt, lesser, type OracleAnswer, oracle, supplyAt } from './oracle'
import {
  buildBook,
  LAW_RUNS,
  LAW_SEED,
  LAW_TIMEOUT_MS,
  oracleTerms,
  type RandomBook,
  random_book,
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

  test('leaves nobody unfilled who is better than somebody filled on the same side, conditional orders aside', () => {
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
