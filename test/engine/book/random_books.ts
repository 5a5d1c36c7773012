/** Random books for the laws: tick regions, sizes, ages and conditions chosen so that ties, drops and edges are common. */
import fc from 'fast-check'
import { Book, TICK_MAX } from '../../../engine/machine/book/book'
import type { CrossTerms } from '../../../engine/machine/book/cross'
import {
  type BookOrder,
  BUY,
  FOK,
  IOC,
  LIMIT,
  OrderPool,
  SELL,
} from '../../../engine/machine/book/order_pool'
import type { OracleOrder, OracleTerms } from './oracle'

export const LAW_RUNS = Number(process.env['TACIT_LAW_RUNS'] ?? 3000)
/** Printed so that a failing run can be repeated with TACIT_LAW_SEED. */
export const LAW_SEED = Number(process.env['TACIT_LAW_SEED'] ?? (Math.random() * 2 ** 31) | 0)
/** Bun's limit per test, stretched for long runs. */
export const LAW_TIMEOUT_MS = 120_000 + 2 * LAW_RUNS
console.log(`laws of the auction: seed ${LAW_SEED}, ${LAW_RUNS} runs`)

export type RandomBook = {
  orders: (BookOrder & { name: string })[]
  terms: CrossTerms
  /** Where the dense window is centred: prices lie inside it, across its edge, or outside. */
  center: number
}

/** Lots: mostly few, so that sizes tie; sometimes as large as a side can hold. */
const lots = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 1000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 2 ** 47 }) },
)

const terms_of_order = fc.record({
  side: fc.constantFrom(BUY, SELL),
  kind: fc.oneof(
    { weight: 6, arbitrary: fc.constant(LIMIT) },
    { weight: 2, arbitrary: fc.constantFrom(IOC, FOK) },
  ),
  offset: fc.integer({ min: 0, max: 30 }),
  lots,
  wants: fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.constantFrom(0.01, 0.3, 0.5, 0.9, 1, 2) },
  ),
  arrival_batch: fc.integer({ min: 1, max: 3 }),
})

export const random_book: fc.Arbitrary<RandomBook> = fc
  .record({
    list: fc.array(terms_of_order, { maxLength: 40 }),
    first_tick: fc.constantFrom(1, 85, 10_000, 1_000_000, TICK_MAX - 30),
    spread: fc.constantFrom(1, 1, 1, 3),
    window: fc.constantFrom('inside', 'inside', 'edge', 'outside'),
    reference: fc.option(fc.integer({ min: -20, max: 60 }), { freq: 6 }),
    collar_bps: fc.constantFrom(1, 20, 300, 1000, 5000, 10_000),
    price_rule: fc.constantFrom('std4' as const, 'std4' as const, 'ref' as const),
    volume_tolerance_bps: fc.constantFrom(0, 50, 100, 2500),
    seed: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    salt: fc.nat(),
  })
  .map(({ list, first_tick, spread, window, reference, salt, ...rest }) => {
    const orders = list.map(({ offset, wants, ...order }, at) => ({
      ...order,
      name: `o${at}`,
      tick: Math.min(TICK_MAX, first_tick + offset * spread),
      min_fill: Math.ceil(wants * order.lots),
      order_id: orderId(salt, at),
    }))
    const reference_tick = reference === null ? null : Math.min(TICK_MAX, Math.max(1, first_tick + reference))
    const shift = { inside: 0, edge: 16_384 - 15, outside: 100_000 }[window]
    return {
      orders,
      center: first_tick > shift ? first_tick - shift : first_tick + shift,
      terms: { ...rest, reference: reference_tick, collar_bps: reference === null ? null : rest.collar_bps },
    }
  })

function orderId(salt: number, at: number): Uint8Array {
  const id = new Uint8Array(16)
  new DataView(id.buffer).setUint32(0, (salt ^ (at * 0x9e3779b1)) >>> 0)
  id[15] = at + 1
  return id
}

/** The book of a case, added in the given order, with the name of every handle. */
export function buildBook(
  random: RandomBook,
  orders = random.orders,
): { book: Book; names: Map<number, string> } {
  const book = new Book(new OrderPool(4), random.center)
  const names = new Map<number, string>()
  for (const order of orders) names.set(book.add(order), order.name)
  return { book, names }
}

export function toOracle(order: BookOrder & { name: string }): OracleOrder {
  return {
    id: order.name,
    tie: order.order_id,
    side: order.side === BUY ? 'buy' : 'sell',
    price: BigInt(order.tick),
    qty: BigInt(order.lots),
    min_fill: BigInt(order.kind === FOK ? order.lots : order.min_fill),
    immediate: order.kind !== LIMIT,
    batch: BigInt(order.arrival_batch),
    expiry: 1n,
  }
}

export function oracleTerms(terms: CrossTerms): OracleTerms {
  return {
    reference: terms.reference === null ? null : BigInt(terms.reference),
    collar_bps: terms.collar_bps === null ? null : BigInt(terms.collar_bps),
    price_rule: terms.price_rule,
    volume_tolerance_bps: BigInt(terms.volume_tolerance_bps),
    seed: terms.seed,
    slot: 1n,
  }
}
