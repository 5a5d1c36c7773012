/** Reads auction cases from a file (`own` and `external`) and answers them with the engine's matching code (matching.md "Auditing"). */

import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Book, SIDE_LOTS_MAX, TICK_MAX } from '../../engine/machine/book/book'
import { type Cross, type CrossTerms, cross } from '../../engine/machine/book/cross'
import { BUY, IOC, LIMIT, OrderPool, SELL } from '../../engine/machine/book/order_pool'

/** One order of a case. Lots are exact at any size. */
type CaseOrder = {
  id: string
  side: 'buy' | 'sell'
  tick: number
  lots: bigint
  min_fill: bigint
  immediate: boolean
  arrival_batch: number
  expiry_slot: number
}
export type AuctionCase = {
  id: string
  slot: number
  reference: number | null
  collar_bps: number | null
  price_rule: 'std4' | 'ref'
  volume_tolerance_bps: number
  seed: Uint8Array
  orders: CaseOrder[]
}
/** The printed answer; quantities are decimal strings. `refused`: the case exceeds the engine's bounds. */
type CaseAnswer =
  | {
      id: string
      price: number | null
      volume: string
      surplus: string
      fills: Record<string, string>
      cancelled: string[]
      resting: Record<string, string>
    }
  | { id: string; refused: string }

const HEX_ID = /^[0-9a-f]{32}$/i

/** Expires, crosses and applies a case. */
export function answerCase(auction: AuctionCase): CaseAnswer {
  const { id, orders, reference, slot } = auction
  if (exceedsBounds(orders)) return { id, refused: `a side exceeds ${SIDE_LOTS_MAX} lots` }
  const ids = new Map<number, string>()
  const book = new Book(new OrderPool(orders.length + 1), reference ?? orders[0]?.tick ?? 1)
  const live = orders.filter((order) => order.expiry_slot >= slot)
  for (const order of live) ids.set(addOrder(book, order), order.id)
  const terms: CrossTerms = { ...auction, tieBytes: (handle) => orderIdBytes(ids.get(handle)!) }
  return { id, ...applied(cross(book, terms), ids, orders) }
}

/** An id of 32 hex digits gives those 16 bytes, any other id its UTF-8 bytes. */
export function orderIdBytes(id: string): Uint8Array {
  return HEX_ID.test(id) ? Uint8Array.fromHex(id) : new TextEncoder().encode(id)
}

function exceedsBounds(orders: CaseOrder[]): boolean {
  for (const side of ['buy', 'sell']) {
    let total = 0n
    for (const order of orders) if (order.side === side) total += order.lots
    if (total > BigInt(SIDE_LOTS_MAX)) return true
  }
  return false
}

function addOrder(book: Book, order: CaseOrder): number {
  return book.add({
    side: order.side === 'buy' ? BUY : SELL,
    kind: order.immediate ? IOC : LIMIT,
    tick: order.tick,
    lots: Number(order.lots),
    min_fill: Number(order.min_fill),
    arrival_batch: order.arrival_batch,
    order_id: new Uint8Array(16),
  })
}

function applied(result: Cross, ids: Map<number, string>, orders: CaseOrder[]) {
  const fills = new Map<string, string>()
  for (const { handles, lots } of [result.buys, result.sells]) {
    for (const [at, handle] of handles.entries()) fills.set(ids.get(handle)!, String(lots[at]!))
  }
  const resting = new Set(ids.values())
  for (const handle of result.remainders) resting.delete(ids.get(handle)!)
  const open = orders
    .map(({ id, lots }) => ({ id, left: lots - BigInt(fills.get(id) ?? 0) }))
    .filter(({ left }) => left > 0n)
  return {
    price: result.price,
    volume: String(result.volume),
    surplus: String(result.surplus),
    fills: Object.fromEntries(fills),
    cancelled: open.flatMap(({ id }) => (resting.has(id) ? [] : id)).sort(),
    resting: Object.fromEntries(
      open.filter(({ id }) => resting.has(id)).map(({ id, left }) => [id, String(left)]),
    ),
  }
}

// The JSON form of an auction file.

const whole = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const tick = Type.Integer({ minimum: 1, maximum: TICK_MAX })
const lots = Type.String({ pattern: '^(0|[1-9][0-9]{0,38})$' })
const side = Type.Union([Type.Literal('buy'), Type.Literal('sell')])
const nullable_tick = Type.Union([tick, Type.Null()])

/** A case under this venue's rules. `rule` `maxvol-ref` is price rule `ref`; `bandBps` is the collar. */
const OwnCase = Type.Object({
  id: Type.String(),
  config: Type.Object({
    ref: nullable_tick,
    bandBps: Type.Union([whole, Type.Null()]),
    rule: Type.Union([Type.Literal('std4'), Type.Literal('maxvol-ref')]),
    slot: whole,
    tolBps: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
    seed: Type.Optional(Type.String({ pattern: '^[0-9a-fA-F]{64}$' })),
  }),
  orders: Type.Array(
    Type.Object({
      id: Type.String(),
      side,
      price: tick,
      qty: lots,
      arrivalBatch: whole,
      expirySlot: whole,
      ioc: Type.Boolean(),
      minFill: lots,
    }),
  ),
})
/** A published case: a null price is a market order, and all orders arrive in one batch. */
const ExternalCase = Type.Object({
  id: Type.String(),
  reference: nullable_tick,
  orders: Type.Array(
    Type.Object({ id: Type.String(), side, price: nullable_tick, qty: Type.Integer({ minimum: 1 }) }),
  ),
})
const AuctionFile = Type.Object({
  own: Type.Optional(Type.Array(OwnCase)),
  external: Type.Optional(Type.Array(ExternalCase)),
})

/** The cases of a file, in the file's order. @throws SyntaxError with the position of the first error */
export function readCases(text: string): AuctionCase[] {
  const file: unknown = JSON.parse(text)
  if (!Value.Check(AuctionFile, file)) {
    const first = Value.Errors(AuctionFile, file).First()
    throw new SyntaxError(`not an auction file: ${first?.path ?? ''} ${first?.message ?? ''}`)
  }
  const cases: AuctionCase[] = []
  for (const name of Object.keys(file)) {
    if (name === 'own') for (const own of file.own ?? []) cases.push(ownCase(own))
    if (name === 'external') for (const external of file.external ?? []) cases.push(externalCase(external))
  }
  for (const { id, orders } of cases) {
    if (new Set(orders.map((order) => order.id)).size !== orders.length)
      throw new SyntaxError(`not an auction file: case ${id} names an order twice`)
    if (orders.some((order) => order.lots === 0n))
      throw new SyntaxError(`not an auction file: case ${id} has no lots`)
  }
  return cases
}

function ownCase({ id, config, orders }: Static<typeof OwnCase>): AuctionCase {
  return {
    id,
    slot: config.slot,
    reference: config.ref,
    collar_bps: config.bandBps,
    price_rule: config.rule === 'std4' ? 'std4' : 'ref',
    volume_tolerance_bps: config.tolBps ?? 0,
    seed: Uint8Array.fromHex(config.seed ?? '00'.repeat(32)),
    orders: orders.map((order) => ({
      id: order.id,
      side: order.side,
      tick: order.price,
      lots: BigInt(order.qty),
      min_fill: BigInt(order.minFill),
      immediate: order.ioc,
      arrival_batch: order.arrivalBatch,
      expiry_slot: order.expirySlot,
    })),
  }
}

function externalCase({ id, reference, orders }: Static<typeof ExternalCase>): AuctionCase {
  const prices = orders.flatMap((order) => order.price ?? [])
  const edges = reference === null ? prices : [...prices, reference]
  const market = { buy: Math.max(1, ...edges), sell: edges.length === 0 ? 1 : Math.min(...edges) }
  return {
    id,
    slot: 0,
    reference,
    collar_bps: null,
    price_rule: 'std4',
    volume_tolerance_bps: 0,
    seed: new Uint8Array(32),
    orders: orders.map(
      (order): CaseOrder => ({
        id: order.id,
        side: order.side,
        tick: order.price ?? market[order.side],
        lots: BigInt(order.qty),
        min_fill: 0n,
        immediate: false,
        arrival_batch: 1,
        expiry_slot: 0,
      }),
    ),
  }
}
