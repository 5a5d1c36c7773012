/**
 * Owns how one case of an auction file becomes a book, is crossed by the venue's own code and is answered
 * (matching.md "Auditing").
 */
import { Book, SIDE_LOTS_MAX } from './book'
import { type Cross, type CrossTerms, cross } from './cross'
import { BUY, IOC, LIMIT, OrderPool, SELL } from './order_pool'

/** One order of a case. `tie` are the bytes hashed for it; lots are exact whatever their size. */
export type CaseOrder = {
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
/** The printed answer; quantities are decimal strings. `refused` alone stands where the engine's bounds are exceeded. */
export type CaseAnswer =
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

/** 32 hex digits are those 16 bytes; any other id its UTF-8 bytes. */
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
