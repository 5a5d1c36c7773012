/** The layout of a live order in a snapshot, said in code as that of a note. */
import { LIMITS } from '../limits'
import type { TradingKey } from './account'
import { type ByteReader, type ByteWriter, CodecError } from './byte_stream'
import type { FillRecord } from './fill_record'
import type { InstrumentState } from './instrument'
import type { Note } from './note'
import type { Order } from './order'
import type { OrderFacts } from './order_facts'
import { DIGEST_BYTES, ID_BYTES, IDENTITY_BYTES, LIVE_STATUSES, SIDES, TYPES } from './order_row'
import type { Tables } from './snapshot_tables'

const IDENTITY = new Uint8Array(IDENTITY_BYTES)

export function writeOrder(to: ByteWriter, order: Order, tables: Tables): void {
  const { anchor_count, origin, fills } = order
  order.readIdentity(IDENTITY)
  to.copy(IDENTITY, 0, ID_BYTES)
  to.uint(order.key.index)
  to.uint(order.instrument.index)
  to.byte(SIDES.indexOf(order.side))
  to.byte(TYPES.indexOf(order.type))
  to.uint(order.lots)
  to.uint(order.ticks)
  to.uint(order.min_lots)
  to.uint(order.expiry_slot)
  to.uint(order.arrival_slot)
  to.uint(order.arrival_batch)
  to.u64(order.nonce)
  to.uint(anchor_count * 32)
  order.encodeAnchors(to)
  to.copy(IDENTITY, ID_BYTES, DIGEST_BYTES)
  to.byte(origin === undefined ? 0 : 1)
  if (origin !== undefined) to.text(origin)
  to.byte(order.has_replaced ? 1 : 0)
  if (order.has_replaced) to.copy(IDENTITY, ID_BYTES + DIGEST_BYTES, ID_BYTES)
  to.uint(order.seq)
  to.uint(order.remaining)
  to.byte(LIVE_STATUSES.indexOf(order.status))
  to.uint(tables.notes.at(order.collateral))
  to.u64(order.cumulative_quote)
  to.u64(order.cumulative_fee)
  to.uint(fills.length)
  for (const fill of fills) to.uint(tables.fills.at(fill))
}

/** Tables decoded before. */
export type OrderDecoding = {
  keys: readonly TradingKey[]
  instruments: readonly InstrumentState[]
  /** The note at a place of their table. */
  noteAt: (place: number) => Note
  fills: readonly FillRecord[]
}

/** One place for the bytes of every order that is read: they are copied on at once. */
const ORDER_ID = new Uint8Array(16)
const DIGEST = new Uint8Array(32)
const REPLACED_ID = new Uint8Array(16)
const ANCHORS = Array.from({ length: LIMITS.anchors_max }, () => new Uint8Array(32))

function read(from: ByteReader, into: Uint8Array): Uint8Array {
  from.copy(into, 0, into.length)
  return into
}

function readAnchors(from: ByteReader): Uint8Array[] {
  const anchors = ANCHORS.slice(0, from.uint() / 32)
  for (const anchor of anchors) read(from, anchor)
  return anchors
}

/** Its bytes are those of the next order as soon as that is read. */
export function readOrder(from: ByteReader, known: OrderDecoding): OrderFacts {
  const facts: OrderFacts = {
    order_id: read(from, ORDER_ID),
    key: known.keys[from.uint()]!,
    instrument: known.instruments[from.uint()]!,
    side: wordOf(SIDES, from.byte()),
    type: wordOf(TYPES, from.byte()),
    lots: from.uint(),
    ticks: from.uint(),
    min_lots: from.uint(),
    expiry_slot: from.uint(),
    arrival_slot: from.uint(),
    arrival_batch: from.uint(),
    nonce: from.u64(),
    anchors: readAnchors(from),
    digest: read(from, DIGEST),
    origin: from.byte() === 1 ? from.text() : undefined,
    replaces: from.byte() === 1 ? read(from, REPLACED_ID) : undefined,
    seq: from.uint(),
    remaining: from.uint(),
    status: wordOf(LIVE_STATUSES, from.byte()),
    collateral: known.noteAt(from.uint()),
    traded: undefined,
  }
  const cumulative_quote = from.u64()
  const cumulative_fee = from.u64()
  const fills: FillRecord[] = []
  for (let count = from.uint(); count > 0; count--) fills.push(known.fills[from.uint()]!)
  if (fills.length > 0) facts.traded = { cumulative_quote, cumulative_fee, fills }
  return facts
}

function wordOf<T>(words: readonly T[], at: number): T {
  const word = words[at]
  if (word === undefined) throw new CodecError('a word is not in its list')
  return word
}
