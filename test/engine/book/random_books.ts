/** Random books for the laws, and a second, slow auction written from matching.md alone, in BigInt throughout. */

import { createHash } from 'node:crypto'
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
    // Few levels have several orders each.
    levels: fc.constantFrom(31, 31, 6),
    window: fc.constantFrom('inside', 'inside', 'upper edge', 'lower edge', 'outside'),
    reference: fc.option(fc.integer({ min: -20, max: 60 }), { freq: 6 }),
    collar_bps: fc.constantFrom(1, 20, 300, 1000, 5000, 10_000),
    price_rule: fc.constantFrom('std4' as const, 'std4' as const, 'ref' as const),
    volume_tolerance_bps: fc.constantFrom(0, 50, 100, 2500),
    seed: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    salt: fc.nat(),
  })
  .map(({ list, first_tick, spread, levels, window, reference, salt, ...rest }) => {
    const orders = list.map(({ offset, wants, ...order }, at) => ({
      ...order,
      name: `o${at}`,
      tick: Math.min(TICK_MAX, first_tick + (offset % levels) * spread),
      min_fill: Math.ceil(wants * order.lots),
      order_id: orderId(salt, at),
    }))
    const reference_tick = reference === null ? null : Math.min(TICK_MAX, Math.max(1, first_tick + reference))
    const half = 16_384
    const below = { inside: 0, 'upper edge': half - 15, 'lower edge': -half - 3, outside: 100_000 }[window]
    return {
      orders,
      center: first_tick > below ? first_tick - below : first_tick + below,
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

/**
 * A second, slow auction written from matching.md alone: BigInt throughout, every tick of the crossing range tried one by
 * one. Shares no code with engine/book, so agreement means something.
 */

type OracleOrder = {
  id: string
  /** Bytes hashed in a tie. */
  tie: Uint8Array
  side: 'buy' | 'sell'
  price: bigint
  qty: bigint
  min_fill: bigint
  immediate: boolean
  batch: bigint
  expiry: bigint
}
type OracleTerms = {
  reference: bigint | null
  collar_bps: bigint | null
  price_rule: 'std4' | 'ref'
  volume_tolerance_bps: bigint
  seed: Uint8Array
  slot: bigint
}
export type OracleAnswer = {
  price: bigint | null
  volume: bigint
  surplus: bigint
  drift: bigint | null
  /** In allocation order, buys then sells. */
  fills: [string, bigint][]
  dropped: string[]
  cancelled: string[]
  resting: [string, bigint][]
}

export function oracle(orders: OracleOrder[], terms: OracleTerms): OracleAnswer {
  const live = orders.filter((o) => o.expiry >= terms.slot)
  let inside = live
  const dropped: string[] = []
  for (;;) {
    const found = findPrice(inside, terms)
    const fills =
      found.price === null
        ? []
        : [...serve(inside, 'buy', found, terms), ...serve(inside, 'sell', found, terms)]
    const short = fills.find(([o, qty]) => qty < least(o))
    if (short === undefined) return answer(orders, live, found, fills, dropped)
    dropped.push(short[0].id)
    inside = inside.filter((o) => o !== short[0])
    if (dropped.length === 32) inside = inside.filter((o) => o.min_fill === 0n)
  }
}

function least(order: OracleOrder): bigint {
  return lesser(order.min_fill, order.qty)
}

type Found = { price: bigint | null; volume: bigint; surplus: bigint; drift: bigint | null }

export function demandAt(orders: OracleOrder[], price: bigint): bigint {
  return orders.reduce((sum, o) => (o.side === 'buy' && o.price >= price ? sum + o.qty : sum), 0n)
}

export function supplyAt(orders: OracleOrder[], price: bigint): bigint {
  return orders.reduce((sum, o) => (o.side === 'sell' && o.price <= price ? sum + o.qty : sum), 0n)
}

function findPrice(orders: OracleOrder[], terms: OracleTerms): Found {
  const none = { price: null, volume: 0n, surplus: 0n, drift: null }
  const bids = orders.filter((o) => o.side === 'buy').map((o) => o.price)
  const asks = orders.filter((o) => o.side === 'sell').map((o) => o.price)
  if (bids.length === 0 || asks.length === 0) return none
  const high = bids.reduce(greater)
  const low = asks.reduce(lesser)
  if (low > high) return none
  const ref = terms.reference
  let ticks: bigint[] = []
  for (let p = low; p <= high; p++) ticks.push(p)
  if (ref !== null && terms.collar_bps !== null) {
    const reach = ref * terms.collar_bps
    ticks = ticks.filter((p) => (p - ref) * 10_000n <= reach && (ref - p) * 10_000n <= reach)
    if (ticks.length === 0) {
      const above = low > ref
      let edge = ref
      while ((above ? edge + 1n - ref : ref - edge + 1n) * 10_000n <= reach) edge += above ? 1n : -1n
      return { ...none, drift: greater(edge, 1n) }
    }
  }
  const rows = ticks.map((p) => {
    const d = demandAt(orders, p)
    const s = supplyAt(orders, p)
    return { p, v: lesser(d, s), z: d - s }
  })
  const chosen = choose(rows, orders, terms)
  const row = rows.find((r) => r.p === chosen)!
  return { price: row.p, volume: row.v, surplus: row.z, drift: null }
}

type Row = { p: bigint; v: bigint; z: bigint }
const abs = (x: bigint) => (x < 0n ? -x : x)

export function lesser(a: bigint, b: bigint): bigint {
  if (a < b) return a
  return b
}

function greater(a: bigint, b: bigint): bigint {
  if (a > b) return a
  return b
}

function choose(rows: Row[], orders: OracleOrder[], terms: OracleTerms): bigint {
  const greatest = rows.map((r) => r.v).reduce(greater)
  if (terms.price_rule === 'ref') {
    const enough = rows.filter((r) => r.v * 10_000n >= greatest * (10_000n - terms.volume_tolerance_bps))
    return closest(enough, terms.reference)
  }
  const fullest = rows.filter((r) => r.v === greatest)
  const smallest = fullest.map((r) => abs(r.z)).reduce(lesser)
  const set = fullest.filter((r) => abs(r.z) === smallest)
  const limits = set.map((r) => r.p).filter((p) => orders.some((o) => o.price === p))
  const near = closest(set, terms.reference)
  if (set.every((r) => r.z > 0n) && limits.length > 0) {
    const top = limits.at(-1)!
    return terms.reference === null ? top : greater(top, near)
  }
  if (set.every((r) => r.z < 0n) && limits.length > 0) {
    const bottom = limits[0]!
    return terms.reference === null ? bottom : lesser(bottom, near)
  }
  return near
}

/** The row nearest the reference; without one the middle of the range, rounded down. */
function closest(rows: Row[], reference: bigint | null): bigint {
  if (reference === null) return (rows[0]!.p + rows.at(-1)!.p) / 2n
  return rows.reduce((best, r) => (abs(r.p - reference) < abs(best.p - reference) ? r : best)).p
}

function serve(
  orders: OracleOrder[],
  side: 'buy' | 'sell',
  found: Found,
  terms: OracleTerms,
): [OracleOrder, bigint][] {
  const price = found.price!
  const queue = orders.filter(
    (o) => o.side === side && (side === 'buy' ? o.price >= price : o.price <= price),
  )
  const tie = new Map(queue.map((o) => [o, tieHash(terms.seed, o.tie)]))
  queue.sort((a, b) => {
    const better = side === 'buy' ? b.price - a.price : a.price - b.price
    for (const step of [better, a.batch - b.batch, b.qty - a.qty]) if (step !== 0n) return step < 0n ? -1 : 1
    return tie.get(a)! < tie.get(b)! ? -1 : 1
  })
  const fills: [OracleOrder, bigint][] = []
  let left = found.volume
  for (const o of queue) {
    if (left === 0n) break
    const qty = lesser(o.qty, left)
    fills.push([o, qty])
    left -= qty
  }
  return fills
}

function tieHash(seed: Uint8Array, id: Uint8Array): string {
  return createHash('sha256').update('tacit/tie/v1', 'ascii').update(seed).update(id).digest('hex')
}

function answer(
  orders: OracleOrder[],
  live: OracleOrder[],
  found: Found,
  fills: [OracleOrder, bigint][],
  dropped: string[],
): OracleAnswer {
  const filled = new Map(fills)
  const open = orders.map((o) => ({ o, left: o.qty - (filled.get(o) ?? 0n) })).filter(({ left }) => left > 0n)
  const rests = (o: OracleOrder) => live.includes(o) && !o.immediate
  return {
    ...found,
    fills: fills.map(([o, qty]) => [o.id, qty]),
    dropped,
    cancelled: open.flatMap(({ o }) => (rests(o) ? [] : o.id)).sort(),
    resting: open.flatMap(({ o, left }) => (rests(o) ? [[o.id, left]] : [])) as [string, bigint][],
  }
}
