/** Stores live orders with all their indexes: by id, by trading key, by expiry slot, in the order of arrival. */

import { copyBytes } from '../../../protocol/bytes'
import type { SlotNumber } from '../../../protocol/units'
import { dueSlots } from '../../memory/buckets'
import { type HashSeed, IdTable } from '../../memory/id_table'
import { HandleLinks, type HandleList, newList, RowMemory, RowSlab, writeU48 } from '../../memory/rows'
import { SharedTexts } from '../../memory/texts'
import { AnchorCells } from './anchor_cells'
import { dropFill, holdFill } from './note'
import { type FillRecord, Order, type OrderContext, type OrderFacts } from './order'
import * as row from './order_row'

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
