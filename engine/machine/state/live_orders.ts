/** Stores live orders with all their indexes, and closed orders by id, oldest first, as rows of bytes. */
import { copyBytes } from '../../../protocol/bytes'
import type { EventSeq, SlotNumber } from '../../../protocol/units'
import type { CancelReason, OrderStatus } from '../../../protocol/wire/trading'
import { MS_PER_DAY } from '../../limits'
import { dueSlots } from '../../memory/buckets'
import { type HashSeed, IdTable } from '../../memory/id_table'
import { RowQueue } from '../../memory/row_queue'
import {
  type Chunk,
  HandleLinks,
  type HandleList,
  newChunk,
  newList,
  RowMemory,
  RowSlab,
  writeU48,
} from '../../memory/rows'
import { SharedTexts } from '../../memory/texts'
import type { TradingKey } from './account'
import { dropFill, holdFill } from './note'
import * as row from './order'
import {
  AnchorCells,
  type FillRecord,
  ID_BYTES,
  IDENTITY_BYTES,
  Order,
  type OrderContext,
  type OrderFacts,
} from './order'
import type { State } from './state'

/** One for all: an array per order would leave a hundred megabytes of garbage. */
const NO_FILLS: readonly FillRecord[] = []

/** About 165 bytes per order with one anchor, including its entry in the id table, plus the columns of the book's pool. */
export class LiveOrders {
  size = 0
  private readonly rows = new RowMemory(row.ORDER_BYTES)
  private readonly table: IdTable
  private readonly all = newList()
  private readonly all_links = new HandleLinks(this.rows, row.ALL_LINKS_AT)
  private readonly key_links = new HandleLinks(this.rows, row.KEY_LINKS_AT)
  private readonly expiries = new Map<SlotNumber, HandleList>()
  private readonly expiry_links = new HandleLinks(this.rows, row.EXPIRY_LINKS_AT)
  private readonly context: OrderContext

  constructor(known: Pick<OrderContext, 'keys' | 'instruments' | 'notes' | 'pool'>, seed: HashSeed) {
    const { pool } = known
    const ids = { bytesOf: () => pool.ids, placeOf: (handle: number) => handle * row.ID_BYTES }
    this.table = new IdTable(ids, seed)
    this.context = {
      ...known,
      anchors: new AnchorCells(),
      origins: new SharedTexts(),
      replaced: new RowSlab(row.ID_BYTES),
      traded: new Map(),
    }
  }

  /** Allocates for `count` orders; there must be none yet. */
  reserve(count: number): void {
    this.rows.reach(count)
    this.context.anchors.reserve(count)
    this.table.reserve(count)
  }

  /** @param order_id 16 bytes */
  find(order_id: Uint8Array): Order | undefined {
    const handle = this.table.find(order_id)
    return handle === undefined ? undefined : this.at(handle)
  }

  /** A reference to the live order of a handle. */
  at(handle: number): Order {
    return new Order(handle, this.rows.chunkOf(handle), this.rows.placeOf(handle), this.context)
  }

  /** In the order of arrival. */
  *values(): Generator<Order> {
    for (let handle = this.all.first; handle !== 0; handle = this.all_links.next(handle))
      yield this.at(handle)
  }

  /** Visits the note handle and the fills of each order, in the order of arrival, without allocating references. */
  eachHolding(visit: (collateral: number, fills: readonly FillRecord[]) => void): void {
    for (let handle = this.all.first; handle !== 0; handle = this.all_links.next(handle)) {
      const collateral = this.rows.placeOf(handle) + row.COLLATERAL_AT
      const fills = this.context.traded.get(handle)?.fills ?? NO_FILLS
      visit(this.rows.chunkOf(handle).view.getUint32(collateral, true), fills)
    }
  }

  *keys(): Generator<string> {
    for (const order of this.values()) yield order.order_id
  }

  /** The orders of a trading key, in the order of arrival. */
  of({ orders }: { orders: HandleList }): Order[] {
    return this.listed(orders, this.key_links)
  }

  /** The orders that expire at or before `slot`: one list per slot, ascending, each in the order of arrival. */
  dueUpTo(slot: SlotNumber): Order[][] {
    const due = dueSlots(this.expiries, 0, slot)
    return due.map((at) => this.listed(this.expiries.get(at)!, this.expiry_links))
  }

  /**
   * Stores an order, adds it to all indexes and holds its notes.
   * @param handle returned by the book for the same order; its row must be free
   */
  add(handle: number, facts: OrderFacts): Order {
    this.rows.reach(handle)
    this.write(handle, facts)
    if (facts.traded !== undefined) this.context.traded.set(handle, facts.traded)
    this.context.notes.hold(facts.collateral)
    for (const fill of facts.traded?.fills ?? []) holdFill(this.context.notes, fill)
    this.table.add(handle)
    this.all_links.append(this.all, handle)
    this.key_links.append(facts.key.orders, handle)
    let bucket = this.expiries.get(facts.expiry_slot)
    if (bucket === undefined) {
      bucket = newList()
      this.expiries.set(facts.expiry_slot, bucket)
    }
    this.expiry_links.append(bucket, handle)
    this.size++
    return this.at(handle)
  }

  /**
   * Clears the row of an order except for its life counter, and releases its notes and those of its fills. The book must
   * not have reused the handle yet.
   */
  remove(order: Order): void {
    const { handle, key, expiry_slot } = order
    const { notes, anchors, origins, replaced, traded } = this.context
    this.table.remove(handle)
    this.all_links.remove(this.all, handle)
    this.key_links.remove(key.orders, handle)
    const bucket = this.expiries.get(expiry_slot)!
    this.expiry_links.remove(bucket, handle)
    if (bucket.first === 0) this.expiries.delete(expiry_slot)
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    notes.dropAt(view.getUint32(at + row.COLLATERAL_AT, true))
    for (const fill of order.fills) dropFill(notes, fill)
    traded.delete(handle)
    anchors.remove(view.getUint32(at + row.ANCHORS_AT, true))
    const origin = view.getUint32(at + row.ORIGIN_AT, true)
    if (origin !== 0) origins.drop(origin)
    const cell = view.getUint32(at + row.REPLACES_AT, true)
    if (cell !== 0) replaced.give(cell)
    const life = view.getUint16(at + row.LIFE_AT, true)
    bytes.fill(0, at, at + row.ORDER_BYTES)
    view.setUint16(at + row.LIFE_AT, life + 1, true)
    this.size--
  }

  private write(handle: number, facts: OrderFacts): void {
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    if (bytes[at + row.STATUS_AT] !== 0) throw new Error('an order lives at this handle already')
    const { replaces, origin } = facts
    copyBytes(facts.digest, 0, bytes, at + row.DIGEST_AT, row.DIGEST_BYTES)
    view.setBigUint64(at + row.NONCE_AT, facts.nonce, true)
    view.setFloat64(at + row.LOTS_AT, facts.lots, true)
    writeU48(view, at + row.EXPIRY_SLOT_AT, facts.expiry_slot)
    writeU48(view, at + row.ARRIVAL_SLOT_AT, facts.arrival_slot)
    writeU48(view, at + row.SEQ_AT, facts.seq)
    view.setUint32(at + row.KEY_AT, facts.key.index, true)
    view.setUint32(at + row.COLLATERAL_AT, facts.collateral.handle, true)
    view.setUint32(at + row.ANCHORS_AT, this.context.anchors.add(facts.anchors), true)
    bytes[at + row.ANCHOR_COUNT_AT] = facts.anchors.length
    view.setUint32(at + row.ORIGIN_AT, origin === undefined ? 0 : this.context.origins.take(origin), true)
    view.setUint32(at + row.REPLACES_AT, replaces === undefined ? 0 : this.replaceCell(replaces), true)
    view.setUint16(at + row.INSTRUMENT_AT, facts.instrument.index, true)
    view.setUint16(at + row.FEE_AT, facts.fee_bps, true)
    bytes[at + row.STATUS_AT] = 1 + row.LIVE_STATUSES.indexOf(facts.status)
    bytes[at + row.TERMS_AT] =
      row.SIDES.indexOf(facts.side) |
      (row.TYPES.indexOf(facts.type) << 1) |
      (isWhole(facts) ? row.WHOLE_OR_NOTHING : 0)
  }

  private replaceCell(order_id: Uint8Array): number {
    const { replaced } = this.context
    const cell = replaced.take()
    copyBytes(order_id, 0, replaced.bytesOf(cell), replaced.placeOf(cell), row.ID_BYTES)
    return cell
  }

  private listed(list: HandleList, links: HandleLinks): Order[] {
    const orders: Order[] = []
    for (let handle = list.first; handle !== 0; handle = links.next(handle)) orders.push(this.at(handle))
    return orders
  }
}

/** The book ignores the minimum fill of a fok order, so a flag stores whether it was 0 or all of the order. */
function isWhole({ type, min_lots, lots }: OrderFacts): boolean {
  if (type !== 'fok' || min_lots === 0) return false
  if (min_lots !== lots) throw new RangeError('the minimum fill of a fok order is none or all of it')
  return true
}

/** The record of a closed order, enough to answer resends and late cancels. Ids in hex. */
export type FinalOrder = {
  readonly order_id: string
  readonly account_id: string
  readonly trading_key: string
  readonly digest: Uint8Array
  readonly status: Extract<OrderStatus, 'filled' | 'cancelled' | 'expired'>
  readonly reason: CancelReason | undefined
  readonly arrival_slot: SlotNumber
  readonly expiry_slot: SlotNumber
  readonly replaces: string | undefined
  /** Event number of its `order.accepted`. */
  readonly seq: EventSeq
  readonly final_unix_ms: number
}

/** A row has the same layout in memory, in a snapshot and in a store: little-endian, unused bytes zero. */
export const ROW_BYTES = 104
const STATUSES = ['filled', 'cancelled', 'expired'] as const
export const REASONS = [
  'by_owner',
  'cancel_all',
  'disconnect',
  'deadman',
  'ioc_remainder',
  'fok_unfilled',
  'replaced',
  'note_exited',
  'instrument_closed',
  'vault_frozen',
  'rebound',
] as const

const DIGEST_AT = 16
const REPLACES_AT = 48
const KEY_AT = 64
const STATUS_AT = 68
/** 0 = none, else 1 + the index in `REASONS`. */
const REASON_AT = 69
const REPLACES_FLAG_AT = 70
const ARRIVAL_AT = 72
const EXPIRY_AT = 80
const SEQ_AT = 88
const FINAL_MS_AT = 96

/** The row without its identity. The index of the key implies the names of key and account. */
type FinalFacts = Pick<
  FinalOrder,
  'status' | 'reason' | 'arrival_slot' | 'expiry_slot' | 'seq' | 'final_unix_ms'
> & {
  key: number
  /** Whether the identity contains the id of a replaced order. */
  replaces: boolean
}

/** Fills the part of an empty row behind the identity. */
function writeRow({ bytes, view }: Chunk, final: FinalFacts): void {
  bytes[REPLACES_FLAG_AT] = final.replaces ? 1 : 0
  view.setUint32(KEY_AT, final.key, true)
  bytes[STATUS_AT] = STATUSES.indexOf(final.status)
  bytes[REASON_AT] = final.reason === undefined ? 0 : 1 + placeOf(final.reason)
  view.setFloat64(ARRIVAL_AT, final.arrival_slot, true)
  view.setFloat64(EXPIRY_AT, final.expiry_slot, true)
  view.setFloat64(SEQ_AT, final.seq, true)
  view.setFloat64(FINAL_MS_AT, final.final_unix_ms, true)
}

function placeOf(reason: (typeof REASONS)[number]): number {
  const place = REASONS.indexOf(reason)
  if (place === -1) throw new Error('a reason without a place in the row')
  return place
}

/** A row that every closing order reuses. */
const ROW = newChunk(ROW_BYTES)

/** About 120 bytes per order, including its entry in the id table. */
export class FinalOrders {
  readonly rows: RowQueue

  /** @param keys by index, which is how rows refer to them */
  constructor(
    private readonly keys: readonly TradingKey[],
    seed: HashSeed,
  ) {
    this.rows = new RowQueue(ID_BYTES, ROW_BYTES, seed)
  }

  /** @param identity of the order (`order.ts`) */
  add(identity: Uint8Array, final: FinalFacts): void {
    ROW.bytes.fill(0)
    copyBytes(identity, 0, ROW.bytes, 0, IDENTITY_BYTES)
    writeRow(ROW, final)
    this.rows.append(ROW.bytes)
  }

  /** @param order_id 16 bytes */
  find(order_id: Uint8Array): FinalOrder | undefined {
    const number = this.rows.indexOf(order_id)
    return number === undefined ? undefined : this.read(this.rows.at(number))
  }

  /** Number of the first kept order that closed at this time or later; the newest one closed last. */
  since(unix_ms: number): number {
    let [from, to] = [this.rows.first, this.rows.size]
    while (from < to) {
      const middle = Math.floor((from + to) / 2)
      if (closedMs(this.rows.at(middle)) < unix_ms) from = middle + 1
      else to = middle
    }
    return from
  }

  read(row: Uint8Array): FinalOrder {
    const view = new DataView(row.buffer, row.byteOffset)
    const reason = row[REASON_AT]!
    const key = this.keys[view.getUint32(KEY_AT, true)]!
    return {
      order_id: row.subarray(0, ID_BYTES).toHex(),
      account_id: key.account.account_id,
      trading_key: key.text,
      digest: row.slice(DIGEST_AT, DIGEST_AT + 32),
      status: STATUSES[row[STATUS_AT]!]!,
      reason: reason === 0 ? undefined : REASONS[reason - 1]!,
      arrival_slot: view.getFloat64(ARRIVAL_AT, true),
      expiry_slot: view.getFloat64(EXPIRY_AT, true),
      replaces:
        row[REPLACES_FLAG_AT] === 1 ? row.subarray(REPLACES_AT, REPLACES_AT + ID_BYTES).toHex() : undefined,
      seq: view.getFloat64(SEQ_AT, true),
      final_unix_ms: view.getFloat64(FINAL_MS_AT, true),
    }
  }
}

const closedMs = (row: Uint8Array): number =>
  new DataView(row.buffer, row.byteOffset).getFloat64(FINAL_MS_AT, true)

/** Whether a row has outlived its body and the retention: its resend fails on its expiry (protocol.md "Order of checks"). */
export function isOutlived(
  row: Uint8Array,
  { settings, slot, unix_ms }: Pick<State, 'settings' | 'slot' | 'unix_ms'>,
): boolean {
  const view = new DataView(row.buffer, row.byteOffset)
  const retained_ms = unix_ms - (settings?.retention_days ?? 0) * MS_PER_DAY
  return view.getFloat64(EXPIRY_AT, true) < slot && closedMs(row) < retained_ms
}
