/** The book against a plain map of orders, under random adding, removing, filling and moving of the window. */

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { BITMAP_STEP, Book, SIDE_LOTS_MAX, TICK_MAX, TickBitmap } from '../../../engine/machine/book/book'
import { cross } from '../../../engine/machine/book/cross'
import {
  type BookOrder,
  BUY,
  FOK,
  IOC,
  LIMIT,
  ORDER_BYTES,
  OrderPool,
  SELL,
} from '../../../engine/machine/book/order_pool'
import { LAW_RUNS, LAW_SEED, LAW_TIMEOUT_MS } from './random_books'

setDefaultTimeout(LAW_TIMEOUT_MS)

function order(fields: Partial<BookOrder>): BookOrder {
  const order_id = new Uint8Array(16).fill(9)
  return { side: BUY, kind: LIMIT, tick: 100, lots: 5, min_fill: 0, arrival_batch: 1, order_id, ...fields }
}

const tick = fc.oneof(
  fc.integer({ min: 1, max: 40 }),
  fc.integer({ min: 32_760, max: 32_776 }),
  fc.integer({ min: 65_530, max: 65_540 }),
  fc.constantFrom(TICK_MAX, TICK_MAX - 1, 1_000_000),
)
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ op: fc.constant('add' as const), tick, lots: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('remove' as const), tick, lots: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('reduce' as const), tick, lots: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('recenter' as const), tick, lots: fc.nat() }) },
)

/** Every level of a side as the book lists it, windowed ones and those outside. */
function levels(book: Book, side: 'buys' | 'sells'): Map<number, number> {
  const source = book[side]
  const found = new Map<number, number>()
  const count = (head: number) => {
    for (const handle of source.handles(head)) {
      const at = book.pool.tick[handle]!
      found.set(at, (found.get(at) ?? 0) + book.pool.remaining[handle]!)
    }
  }
  count(source.below)
  count(source.above)
  for (let at = source.nextTick(source.base); at >= 0; at = source.nextTick(at + 1)) {
    count(source.headAt(at))
    expect(found.get(at)).toBe(source.lotsAt(at))
  }
  return found
}

describe('the book', () => {
  test('holds exactly the orders added and not removed, at any price, wherever its window stands', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const book = new Book(new OrderPool(2), 20_000)
        const model = new Map<number, BookOrder>()
        for (const { op, tick: at, lots } of steps) {
          const handle = [...model.keys()][lots % Math.max(1, model.size)]
          if (op === 'add') {
            const added = order({
              tick: at,
              lots,
              side: lots % 2 === 0 ? BUY : SELL,
              kind: lots > 7 ? IOC : LIMIT,
            })
            model.set(book.add(added), { ...added })
          } else if (op === 'recenter') book.recenter(at)
          else if (handle !== undefined && op === 'remove') {
            book.remove(handle)
            model.delete(handle)
          } else if (handle !== undefined) {
            const known = model.get(handle)!
            const taken = 1 + (lots % known.lots)
            known.lots -= taken
            expect(book.reduce(handle, taken)).toBe(known.lots)
            if (known.lots === 0) model.delete(handle)
          }
        }
        for (const [handle, known] of model) expect(book.get(handle)).toEqual(known)
        expect(book.pool.size).toBe(model.size)
        for (const [side, name] of [
          [BUY, 'buys'],
          [SELL, 'sells'],
        ] as const) {
          const expected = new Map<number, number>()
          for (const o of model.values()) {
            if (o.side === side) expected.set(o.tick, (expected.get(o.tick) ?? 0) + o.lots)
          }
          expect(levels(book, name)).toEqual(expected)
          expect(book.total(side)).toBe([...expected.values()].reduce((a, b) => a + b, 0))
        }
      }),
      { numRuns: Math.ceil(LAW_RUNS / 5), seed: LAW_SEED },
    )
  })

  test('refuses orders that would make a sum of lots inexact or a price unreachable', () => {
    const book = new Book(new OrderPool(), 100)
    book.add(order({ lots: SIDE_LOTS_MAX }))
    expect(() => book.add(order({ lots: 1 }))).toThrow('side total out of range')
    expect(() => book.add(order({ side: SELL, lots: SIDE_LOTS_MAX + 1 }))).toThrow('lots out of range')
    expect(() => book.add(order({ side: SELL, lots: 0 }))).toThrow('lots out of range')
    expect(() => book.add(order({ side: SELL, tick: 0 }))).toThrow('tick out of range')
    expect(() => book.add(order({ side: SELL, tick: TICK_MAX + 1 }))).toThrow('tick out of range')
    expect(book.total(SELL)).toBe(0)
    expect(book.pool.size).toBe(1)
  })

  test('refuses a handle that names no resting order', () => {
    const book = new Book(new OrderPool(), 100)
    const handle = book.add(order({}))
    expect(() => book.reduce(handle, 6)).toThrow('lots out of range')
    book.remove(handle)
    expect(() => book.remove(handle)).toThrow('no such order')
    expect(() => book.reduce(handle, 1)).toThrow('no such order')
    expect(book.get(handle)).toBeUndefined()
  })

  test('a minimum fill can be read until another order gets the slot, and is not inherited', () => {
    const book = new Book(new OrderPool(), 100)
    const handle = book.add(order({ min_fill: 3 }))
    expect(book.get(handle)?.min_fill).toBe(3)
    book.remove(handle)
    expect(book.get(handle)).toBeUndefined()
    expect(book.pool.minFill(handle)).toBe(3)
    expect(book.conditional_orders).toBe(0)
    expect(book.add(order({ min_fill: 0 }))).toBe(handle)
    expect(book.get(handle)?.min_fill).toBe(0)
    expect(book.conditional_orders).toBe(0)
    book.remove(handle)
    expect(book.add(order({ kind: FOK, min_fill: 0 }))).toBe(handle)
    expect(book.get(handle)?.min_fill).toBe(5)
    expect(book.conditional_orders).toBe(1)
  })

  test('takes at most 64 bytes of pool per resting order', () => {
    const pool = new OrderPool(10_000)
    const buffers = new Set(
      Object.values(pool).flatMap((field) => (ArrayBuffer.isView(field) ? [field.buffer] : [])),
    )
    let bytes = 0
    for (const { byteLength } of buffers) bytes += byteLength
    expect(bytes / 10_001).toBe(ORDER_BYTES)
    expect(ORDER_BYTES).toBeLessThanOrEqual(64)
  })
})

const SIZE = 2 * BITMAP_STEP
const position = fc.oneof(
  fc.integer({ min: 0, max: SIZE - 1 }),
  fc.integer({ min: 0, max: 70 }),
  fc.constantFrom(0, 31, 32, 1023, 1024, BITMAP_STEP - 1, BITMAP_STEP, SIZE - 1),
)

test('the next and previous occupied tick are those of a sorted set', () => {
  const operation = fc.record({ at: position, set: fc.boolean() })
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 40 }), fc.array(position), (operations, probes) => {
      const bitmap = new TickBitmap(SIZE)
      const model = new Set<number>()
      for (const { at, set } of operations) {
        if (set) {
          bitmap.set(at)
          model.add(at)
        } else {
          bitmap.clear(at)
          model.delete(at)
        }
      }
      const sorted = [...model].sort((a, b) => a - b)
      for (const probe of [-1, SIZE, ...probes]) {
        expect(bitmap.next(probe)).toBe(sorted.find((at) => at >= probe) ?? -1)
        expect(bitmap.previous(probe)).toBe(sorted.findLast((at) => at <= probe) ?? -1)
      }
    }),
    { numRuns: 1000, seed: LAW_SEED },
  )
})

const act = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constant('place' as const),
      side: fc.constantFrom(BUY, SELL),
      kind: fc.constantFrom(LIMIT, LIMIT, LIMIT, IOC, FOK),
      tick: fc.integer({ min: 95, max: 105 }),
      lots: fc.integer({ min: 1, max: 20 }),
      min_fill: fc.constantFrom(0, 0, 0, 3),
    }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('cancel' as const), pick: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('close' as const) }) },
)

type Account = { original: number; filled: number; live: number; cancelled: number; ended: boolean }

test('original = filled + live + cancelled for every order for ever, and a cancelled order never fills', () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 80 }), (acts) => {
      const book = new Book(new OrderPool(2), 100)
      const accounts: Account[] = []
      const resting = new Map<number, Account>()
      let reference = 100
      let batch = 1
      const end = (handle: number) => {
        const account = resting.get(handle)!
        account.cancelled += account.live
        account.live = 0
        account.ended = true
        resting.delete(handle)
        book.remove(handle)
      }
      for (const step of acts) {
        if (step.act === 'place') {
          const { act: _, ...terms } = step
          const min_fill = Math.min(terms.min_fill, terms.lots)
          const handle = book.add({
            ...terms,
            min_fill,
            arrival_batch: batch,
            order_id: new Uint8Array(16).fill(accounts.length + 1),
          })
          const account = { original: step.lots, filled: 0, live: step.lots, cancelled: 0, ended: false }
          accounts.push(account)
          resting.set(handle, account)
        } else if (step.act === 'cancel') {
          const handle = [...resting.keys()][step.pick % Math.max(1, resting.size)]
          if (handle !== undefined) end(handle)
        } else {
          const seed = new Uint8Array(32).fill(batch++)
          const result = cross(book, {
            reference,
            collar_bps: 300,
            price_rule: 'std4',
            volume_tolerance_bps: 0,
            seed,
          })
          for (const { handles, lots } of [result.buys, result.sells]) {
            for (const [at, handle] of handles.entries()) {
              const account = resting.get(handle)!
              expect(account.ended).toBeFalse()
              account.filled += lots[at]!
              account.live -= lots[at]!
              if (book.reduce(handle, lots[at]!) === 0) {
                account.ended = true
                resting.delete(handle)
              }
            }
          }
          for (const handle of result.remainders) end(handle)
          reference = result.price ?? result.drift ?? reference
        }
        for (const { original, filled, live, cancelled } of accounts)
          expect(filled + live + cancelled).toBe(original)
        expect(book.pool.size).toBe(resting.size)
        for (const [handle, { live }] of resting) expect(book.get(handle)!.lots).toBe(live)
      }
    }),
    { numRuns: Math.ceil(LAW_RUNS / 10), seed: LAW_SEED },
  )
})
