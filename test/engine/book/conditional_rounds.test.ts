/** The bound on conditional rounds: one order leaves per round, after 32 the rest of them sit the batch out. */
import { describe, expect, test } from 'bun:test'
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
import { oracle } from './oracle'
import { oracleTerms, toOracle } from './random_books'

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
function orders(failing: number) {
  const list = [order(1, SELL, 1000, 10, 0), order(2, BUY, 1001, 6, 0), order(3, BUY, 1000, 4, 4)]
  for (let at = 0; at < failing; at++) list.push(order(10 + at, BUY, 1100 + at, 11, 11))
  return list
}

function held(failing: number) {
  const book = new Book(new OrderPool(64), 1000)
  const handles = new Map(orders(failing).map((o) => [o.name, book.add(o)]))
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
      const expected = oracle(orders(failing).map(toOracle), oracleTerms(terms))
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
