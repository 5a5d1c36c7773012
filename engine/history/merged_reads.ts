/** Answers reads from the database and the events that are not written yet. */

import type * as wire from '../../protocol/wire/trading'
import { READ_UNITS } from '../limits'
import type { EventText, OrderFilter, Owned } from './contract'
import { isUnfilled, withFills } from './event_text'
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

  order(order_id: string): Owned | undefined {
    const found = this.overlay.order(order_id) ?? this.store.order(order_id)
    if (found === undefined) return undefined
    const { account_id, text } = found
    return { account_id, text: this.withFills(account_id, order_id, text) }
  }

  orders(account_id: string, filter: OrderFilter): wire.Page<string> {
    const { after, limit } = filter
    const found: { seq: number; order_id: string; text: string }[] = []
    const { through, rows } = this.store.orders(account_id, filter)
    // Merge unwritten orders only up to the last database row read, because later rows may precede them.
    let known = through
    for (const row of rows) {
      if (this.overlay.order(row.order_id) !== undefined) continue
      found.push(row)
      if (found.length > limit) {
        known = row.seq
        break
      }
    }
    for (const { order, text, created, seen } of this.overlay.ordersOf(account_id)) {
      this.store.units += READ_UNITS.passed
      const { order_id } = order
      const seq = created ?? this.store.orderSeq(order_id) ?? seen
      const inside = seq > after && (known === undefined || seq <= known)
      if (inside && matches(order, filter)) found.push({ seq, order_id, text })
    }
    found.sort((a, b) => a.seq - b.seq)
    const page = pageOf(found, limit)
    const next_after = page.next_after ?? known ?? null
    return {
      items: page.items.map(({ order_id, text }) => this.withFills(account_id, order_id, text)),
      next_after,
    }
  }

  fills(account_id: string, after: number, limit: number): wire.Page<string> {
    const found = new Map<string, { seq: number; text: string }>()
    const written = this.store.fills(account_id, after, limit + 1)
    for (const row of written) found.set(`${row.order_id}/${row.fill_index}`, row)
    const known = written.length > limit ? written.at(-1)?.seq : undefined
    for (const { fill, text, created, seen } of this.overlay.fillsOf(account_id)) {
      this.store.units += READ_UNITS.passed
      const { order_id, fill_index } = fill
      const seq = created ?? this.store.fillSeq(order_id, fill_index) ?? seen
      const inside = seq > after && (known === undefined || seq <= known)
      if (inside) found.set(`${order_id}/${fill_index}`, { seq, text })
    }
    const sorted = [...found.values()].sort((a, b) => a.seq - b.seq)
    const page = pageOf(sorted, limit)
    return { items: page.items.map(({ text }) => text), next_after: page.next_after }
  }

  payment(kind: 'withdrawal' | 'reshape', id: string): Owned | undefined {
    return this.overlay.payment(kind, id) ?? this.store.payment(kind, id)
  }

  /** Fills change after their order is closed, so the newest fill of each index replaces the one in the order event. */
  private withFills(account_id: string, order_id: string, text: string): string {
    if (isUnfilled(text)) return text
    const order = JSON.parse(text) as wire.Order
    const fills = new Map<number, string>()
    for (const fill of order.fills) fills.set(fill.fill_index, JSON.stringify(fill))
    for (const fill of this.store.fillsOf(account_id, order_id)) fills.set(fill.fill_index, fill.text)
    for (const held of this.overlay.fillsOfOrder(order_id)) fills.set(held.fill.fill_index, held.text)
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
