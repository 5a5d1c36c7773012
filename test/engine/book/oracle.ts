/**
 * A second, slow auction written from matching.md alone: BigInt throughout, every tick of the crossing range tried one by
 * one. Shares no code with engine/book, so agreement means something.
 */
import { createHash } from 'node:crypto'

export type OracleOrder = {
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
export type OracleTerms = {
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
