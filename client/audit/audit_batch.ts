/** Judges the export of one batch and answers auction cases of a file, both with the engine's matching code. */
import { Book, SIDE_LOTS_MAX, TICK_MAX } from '../../engine/machine/book/book'
import { type Cross, type CrossTerms, cross } from '../../engine/machine/book/cross'
import { BUY, FOK, IOC, LIMIT, OrderPool, SELL } from '../../engine/machine/book/order_pool'
import { decryptWithIdentity } from '../../protocol/age'
import {
  type AuctionExport,
  type AuctionResult,
  auctionHash,
  decodeExport,
  type SignedExport,
  signedExportBytes,
  unpadExport,
} from '../../protocol/bodies/auction_export'
import { STATEMENT_BODY, type StatementBody } from '../../protocol/bodies/statements'
import { equalBytes, fromHex, toHex } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import { verifySignature } from '../../protocol/ed25519'
import { JsonObject, parseJson } from '../verify/json_document'
import { Refused } from '../verify/transcript'

/** The export does not prove its statement; the message names the first check that fails. */
class ExportRefused extends Refused {
  override readonly name = 'ExportRefused'
}

/** The venue that the evidence attests: its id, and the settlement key of its epoch, which certifies the key of an export. */
export type AttestedVenue = { venue: Uint8Array; tee_pubkey: Uint8Array }
export type BatchAudit = {
  exported: AuctionExport
  recomputed: AuctionResult
  /** The venue and the epoch of the signature. */
  signer: StatementBody
}

/**
 * Decrypts, verifies the chain of keys and the signature, holds the auction again and compares.
 * @param attested undefined: only the signature by the key that the file itself certifies is known, not whose key it is
 * @throws ExportRefused
 */
export async function auditBatch(
  file: Uint8Array,
  identity: string,
  attested: AttestedVenue | undefined,
): Promise<BatchAudit> {
  const padded = await decryptWithIdentity(identity, file)
  if (padded === undefined) throw new ExportRefused('the file is for another key, or was changed')
  const sealed = tryDecode(() => unpadExport(padded))
  if (sealed === undefined) throw new ExportRefused('the file is not an export')
  const signer = verifySigner(sealed, attested)
  const exported = tryDecode(() => decodeExport(sealed.content))
  if (exported === undefined) throw new ExportRefused('the content of the export is malformed')
  const recomputed = recomputedOf(exported)
  if (
    recomputed.volume_lots !== exported.volume_lots ||
    (recomputed.price_ticks ?? 0) !== exported.price_ticks ||
    !equalBytes(auctionHash(recomputed), exported.result_hash)
  )
    throw new ExportRefused('these orders give another result than the venue recorded')
  return { exported, recomputed, signer }
}

function verifySigner(sealed: SignedExport, attested: AttestedVenue | undefined): StatementBody {
  const signer = tryDecode(() => STATEMENT_BODY.decode(sealed.certificate))
  if (signer === undefined) throw new ExportRefused('the certificate of the export is malformed')
  const { venue, epoch, statement_key } = signer
  if (attested !== undefined) {
    if (!equalBytes(venue, attested.venue)) throw new ExportRefused('the export is of another venue')
    if (!verifySignature(sealed.certificate_signature, sealed.certificate, attested.tee_pubkey))
      throw new ExportRefused('the key of the export is not certified by the attested venue')
  }
  if (!verifySignature(sealed.signature, signedExportBytes(venue, epoch, sealed.content), statement_key))
    throw new ExportRefused('the export is not signed by its certified key')
  return signer
}

function recomputedOf(exported: AuctionExport): AuctionResult {
  try {
    return recomputeBatch(exported)
  } catch (error) {
    if (error instanceof RangeError) throw new ExportRefused(`no book holds these orders: ${error.message}`)
    throw error
  }
}

const KINDS = { limit: LIMIT, ioc: IOC, fok: FOK } as const

/** The result of the match of exactly these members. @throws RangeError for members that no book holds */
export function recomputeBatch(exported: AuctionExport): AuctionResult {
  const { orders, symbol, batch, slot, reference_ticks, seed } = exported
  const pool = new OrderPool(orders.length + 1)
  const book = new Book(pool, reference_ticks)
  for (const [at, order] of orders.entries()) {
    if (at > 0 && !(orders[at - 1]!.order_id < order.order_id))
      throw new RangeError('the orders are not in ascending order of their ids')
    if (order.arrival_batch > batch) throw new RangeError('an order arrived after the batch')
    book.add({
      side: order.side === 'buy' ? BUY : SELL,
      kind: KINDS[order.type],
      tick: order.ticks,
      lots: order.lots,
      min_fill: order.min_lots,
      arrival_batch: order.arrival_batch,
      order_id: fromHex(order.order_id, 16)!,
    })
  }
  const { collar_bps, price_rule, volume_tolerance_bps } = exported
  const terms = { reference: reference_ticks, collar_bps, price_rule, volume_tolerance_bps, seed }
  const { price, volume, buys, sells, remainders } = cross(book, terms)
  const idOf = (handle: number) => toHex(pool.orderId(handle))
  const fills = [buys, sells].flatMap(({ handles, lots }) =>
    Array.from(handles, (handle, at) => ({ order_id: idOf(handle), lots: lots[at]! })),
  )
  return {
    symbol,
    batch,
    slot,
    reference_ticks,
    seed,
    price_ticks: price,
    volume_lots: volume,
    fills: fills.sort((a, b) => (a.order_id < b.order_id ? -1 : 1)),
    cancelled: remainders.map(idOf).sort(),
  }
}

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

// The JSON form of an auction file; fields that are not named here are not read.

/** The cases of a file, in the file's order. @throws Refused naming the place of the first error */
export function readCases(text: string): AuctionCase[] {
  const file = parseJson(text)
  const cases: AuctionCase[] = []
  for (const [name, list] of Object.entries(Object(file)))
    if (name === 'own' || name === 'external')
      for (const [at, one] of Object.entries(Array.isArray(list) ? list : [null])) {
        const place = `not an auction file: /${name}/${at}`
        const read = name === 'own' ? ownCase : externalCase
        cases.push(read(JsonObject.of(one, place), place))
      }
  if (file === undefined) throw new Refused('not an auction file: it is not JSON')
  for (const { id, orders } of cases) {
    if (new Set(orders.map((order) => order.id)).size !== orders.length)
      throw new Refused(`not an auction file: case ${id} names an order twice`)
    if (orders.some((order) => order.lots === 0n))
      throw new Refused(`not an auction file: case ${id} has no lots`)
  }
  return cases
}

const wrong = (place: string, field: string): Refused => new Refused(`${place} has no well formed ${field}`)
const nullable = <T>(of: JsonObject, field: string, read: (field: string) => T): T | null =>
  of.isNull(field) ? null : read(field)
const tickIn = (of: JsonObject, field: string, place: string): number => {
  const tick = of.integer(field, TICK_MAX)
  if (tick === 0) throw wrong(place, field)
  return tick
}
function lotsIn(of: JsonObject, field: string, place: string): bigint {
  const text = of.text(field)
  if (!/^(0|[1-9][0-9]{0,38})$/.test(text)) throw wrong(place, field)
  return BigInt(text)
}
function sideIn(of: JsonObject, place: string): 'buy' | 'sell' {
  const side = of.text('side')
  if (side !== 'buy' && side !== 'sell') throw wrong(place, 'side')
  return side
}

/** A case under this venue's rules. `rule` `maxvol-ref` is price rule `ref`; `bandBps` is the collar. */
function ownCase(one: JsonObject, place: string): AuctionCase {
  const id = one.text('id')
  const config = one.object('config')
  const rule = config.text('rule')
  if (rule !== 'std4' && rule !== 'maxvol-ref') throw wrong(place, 'config.rule')
  return {
    id,
    slot: config.safeInteger('slot'),
    reference: nullable(config, 'ref', (field) => tickIn(config, field, place)),
    collar_bps: nullable(config, 'bandBps', (field) => config.safeInteger(field)),
    price_rule: rule === 'std4' ? 'std4' : 'ref',
    volume_tolerance_bps: config.optional('tolBps', (field) => config.integer(field, 10_000)) ?? 0,
    seed: config.optional('seed', (field) => config.bytes(field, 32)) ?? new Uint8Array(32),
    orders: one.objects('orders').map((order) => ({
      id: order.text('id'),
      side: sideIn(order, place),
      tick: tickIn(order, 'price', place),
      lots: lotsIn(order, 'qty', place),
      min_fill: lotsIn(order, 'minFill', place),
      immediate: order.boolean('ioc'),
      arrival_batch: order.safeInteger('arrivalBatch'),
      expiry_slot: order.safeInteger('expirySlot'),
    })),
  }
}

/** A published case: a null price is a market order, and all orders arrive in one batch. */
function externalCase(one: JsonObject, place: string): AuctionCase {
  const id = one.text('id')
  const reference = nullable(one, 'reference', (field) => tickIn(one, field, place))
  const orders = one.objects('orders').map((order) => ({
    id: order.text('id'),
    side: sideIn(order, place),
    price: nullable(order, 'price', (field) => tickIn(order, field, place)),
    lots: BigInt(order.safeInteger('qty')),
  }))
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
      ({ id: order_id, side, price, lots }): CaseOrder => ({
        id: order_id,
        side,
        tick: price ?? market[side],
        lots,
        min_fill: 0n,
        immediate: false,
        arrival_batch: 1,
        expiry_slot: 0,
      }),
    ),
  }
}
