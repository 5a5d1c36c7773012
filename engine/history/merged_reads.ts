/** Answers reads from the database and the events that are not written yet. */

import type * as wire from '../../protocol/wire/trading'
import { READ_UNITS } from '../limits'
import type { EventText, OrderFilter, Owned } from './contract'
import { dataText, isUnfilled, slotOf, withFills } from './event_text'
import type { Overlay } from './overlay'
import { isOpen } from './seal'
import type { Store } from './store'

export class MergedReads {
  constructor(
    private readonly store: Store,
    private readonly overlay: Overlay,
  ) {}

  /** See `History.units`. */
  get units(): number {
    return this.store.units
  }

  events(account_id: string, after: number, limit: number): wire.Page<EventText> {
    const held_first = this.overlay.seqFirst(account_id) ?? Number.MAX_SAFE_INTEGER
    const found = after + 1 >= held_first ? [] : this.store.events(account_id, after, held_first, limit + 1)
    const held = this.overlay.events(account_id, after, limit + 1 - found.length)
    this.store.units += held.length * READ_UNITS.event
    found.push(...held)
    return pageOf(found, limit)
  }

  seqFirst(account_id: string): number {
    return this.store.account(account_id)?.seq_first ?? this.overlay.seqFirst(account_id) ?? 1
  }

  seqLast(account_id: string): number {
    return this.overlay.seqLast(account_id) ?? this.store.account(account_id)?.seq_last ?? 0
  }

  order(account_id: string, order_id: string): string | undefined {
    const held = this.overlay.order(account_id, order_id)
    const event = held === undefined ? this.store.order(account_id, order_id) : held.text
    return event && this.orderText(account_id, event)
  }

  isOrder(order_id: string): boolean {
    return this.overlay.isOrder(order_id) || this.store.isOrder(order_id)
  }

  orders(account_id: string, filter: OrderFilter): wire.Page<string> {
    const { after, limit } = filter
    const unwritten = Array.from(this.overlay.ordersOf(account_id), (held) => {
      this.store.units += READ_UNITS.passed
      const { order, created, seen } = held
      const seq = created ?? this.store.orderSeq(account_id, order.order_id, seen) ?? seen
      return { seq, order, event: held.text }
    })
    const seqs = new Set(unwritten.map(({ seq }) => seq))
    const found: { seq: number; event: string }[] = []
    const { through, rows } = this.store.orders(account_id, filter)
    // Merge unwritten orders only up to the last database row read, because later rows may precede them.
    let known = through
    for (const row of rows) {
      if (seqs.has(row.seq)) continue
      found.push(row)
      if (found.length > limit) {
        known = row.seq
        break
      }
    }
    for (const { seq, order, event } of unwritten) {
      const inside = seq > after && (known === undefined || seq <= known)
      if (inside && matches(order, filter)) found.push({ seq, event })
    }
    found.sort((a, b) => a.seq - b.seq)
    const page = pageOf(found, limit)
    const next_after = page.next_after ?? known ?? null
    return { items: page.items.map(({ event }) => this.orderText(account_id, event)), next_after }
  }

  fills(account_id: string, after: number, limit: number): wire.Page<string> {
    const found = new Map<number, { seq: number; text: string }>()
    const written = this.store.fills(account_id, after, limit + 1)
    for (const row of written) found.set(row.seq, row)
    const known = written.length > limit ? written.at(-1)?.seq : undefined
    for (const { fill, text, created, seen } of this.overlay.fillsOf(account_id)) {
      this.store.units += READ_UNITS.passed
      const seq = created ?? this.store.fillSeq(account_id, fill) ?? seen
      const inside = seq > after && (known === undefined || seq <= known)
      if (inside) found.set(seq, { seq, text: dataText(text) })
    }
    const sorted = [...found.values()].sort((a, b) => a.seq - b.seq)
    const page = pageOf(sorted, limit)
    return { items: page.items.map(({ text }) => text), next_after: page.next_after }
  }

  payment(kind: 'withdrawal' | 'reshape', id: string): Owned | undefined {
    return this.overlay.payment(kind, id) ?? this.store.payment(kind, id)
  }

  /**
   * The order of its newest event. Fills change after their order is closed, so the newest fill of each index replaces the one
   * in the event. All were matched between the order's arrival and that event: other fills are of an order with the same id.
   */
  private orderText(account_id: string, event: string): string {
    if (isUnfilled(event)) return dataText(event)
    const { slot, data } = JSON.parse(event) as wire.AccountEvent
    const order = data as wire.Order
    const fills = new Map(order.fills.map((fill) => [fill.fill_index, JSON.stringify(fill)]))
    const add = (fill_index: number, text: string) => {
      const at = slotOf(text)
      if (at >= order.arrival_slot && at <= slot) fills.set(fill_index, text)
    }
    const { order_id } = order
    for (const { fill_index, text } of this.store.fillsOf(account_id, order_id)) add(fill_index, text)
    for (const { fill, text } of this.overlay.fillsOfOrder(account_id, order_id))
      add(fill.fill_index, dataText(text))
    const newest = [...fills].sort(([a], [b]) => a - b).map(([, fill]) => fill)
    return withFills(order, newest)
  }
}

function matches(order: wire.Order, { status, symbol }: OrderFilter): boolean {
  if (symbol !== undefined && order.symbol !== symbol) return false
  if (status === undefined) return true
  return status === 'open' ? isOpen(order.status) : order.status === status
}

/** Cuts `found` to `limit` items; one more item means that the page is not the last. */
function pageOf<T extends { seq: number }>(found: T[], limit: number): wire.Page<T> {
  if (found.length <= limit) return { items: found, next_after: null }
  const items = found.slice(0, limit)
  return { items, next_after: items.at(-1)?.seq ?? null }
}
