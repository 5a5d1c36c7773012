/** The layout of a live order in a snapshot, said in code as that of a note. */
import type { TradingKey } from './account'
import { type ByteReader, type ByteWriter, CodecError } from './byte_stream'
import type { FillRecord } from './fill_record'
import type { InstrumentState } from './instrument'
import type { Note } from './note'
import type { Order, OrderFacts } from './order'
import { DIGEST_AT, IDENTITY_BYTES, LIVE_STATUSES, REPLACES_AT, SIDES, TYPES } from './order_row'
import type { Tables } from './snapshot_tables'

export function writeOrder(to: ByteWriter, order: Order, tables: Tables): void {
  const { identity, anchor_count, origin, fills } = order
  to.fixed(identity.subarray(0, DIGEST_AT), DIGEST_AT)
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
  for (let index = 0; index < anchor_count; index++) to.fixed(order.anchor(index), 32)
  to.fixed(identity.subarray(DIGEST_AT, REPLACES_AT), REPLACES_AT - DIGEST_AT)
  to.byte(origin === undefined ? 0 : 1)
  if (origin !== undefined) to.text(origin)
  to.byte(order.has_replaced ? 1 : 0)
  if (order.has_replaced) to.fixed(identity.subarray(REPLACES_AT), IDENTITY_BYTES - REPLACES_AT)
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
  notes: readonly Note[]
  fills: readonly FillRecord[]
}

export function readOrder(from: ByteReader, known: OrderDecoding): OrderFacts {
  const facts: OrderFacts = {
    order_id: from.fixed(16),
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
    anchors: from.blob(),
    digest: from.fixed(32),
    origin: from.byte() === 1 ? from.text() : undefined,
    replaces: from.byte() === 1 ? from.fixed(16) : undefined,
    seq: from.uint(),
    remaining: from.uint(),
    status: wordOf(LIVE_STATUSES, from.byte()),
    collateral: known.notes[from.uint()]!,
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
