/** Answers reads from both halves: what is written and, over it, what is not written yet. */
import type * as wire from '../../protocol/wire'
import type { OrderFilter } from './contract'
import type { Overlay } from './overlay'
import { isOpen } from './rows'
import type { OwnedOrder, Store } from './store'

export class MergedReads {
  constructor(
    private readonly store: Store,
    private readonly overlay: Overlay,
  ) {}

  events(account_id: string, after: number, limit: number): wire.Page<wire.AccountEvent> {
    const held = this.overlay.events(account_id)
    const first_held = held[0]?.seq ?? Number.MAX_SAFE_INTEGER
    const found = after + 1 >= first_held ? [] : this.store.events(account_id, after, first_held, limit + 1)
    if (found.length <= limit && held.length > 0) {
      const from = Math.max(0, after + 1 - first_held)
      found.push(...held.slice(from, from + limit + 1 - found.length))
    }
    return pageOf(found, limit, ({ seq }) => seq)
  }

  seqFirst(account_id: string): number {
    return this.store.account(account_id)?.seq_first ?? this.overlay.events(account_id)[0]?.seq ?? 1
  }

  seqLast(account_id: string): number {
    return this.overlay.events(account_id).at(-1)?.seq ?? this.store.account(account_id)?.seq_last ?? 0
  }

  order(order_id: string): OwnedOrder | undefined {
    const found = this.overlay.order(order_id) ?? this.store.order(order_id)
    if (found === undefined) return undefined
    return { account_id: found.account_id, order: this.#withFills(found.order) }
  }

  orders(account_id: string, filter: OrderFilter): wire.Page<wire.Order> {
    const { after, limit } = filter
    const found: { seq: number; order: wire.Order }[] = []
    const { through, rows } = this.store.orders(account_id, filter)
    // What is held may only join where the written part is known: up to the last row looked at.
    let known = through
    for (const row of rows) {
      if (this.overlay.order(row.order.order_id) !== undefined) continue
      found.push(row)
      if (found.length > limit) {
        known = row.seq
        break
      }
    }
    for (const entry of this.overlay.ordersOf(account_id)) {
      const seq = entry.created ?? this.store.orderSeq(entry.order.order_id) ?? entry.seen
      const inside = seq > after && (known === undefined || seq <= known)
      if (inside && matches(entry.order, filter)) found.push({ seq, order: entry.order })
    }
    found.sort((a, b) => a.seq - b.seq)
    const page = pageOf(found, limit, ({ seq }) => seq)
    const next_after = page.next_after ?? known ?? null
    return { items: page.items.map(({ order }) => this.#withFills(order)), next_after }
  }

  fills(account_id: string, after: number, limit: number): wire.Page<wire.Fill> {
    const found = new Map<string, { seq: number; fill: wire.Fill }>()
    const written = this.store.fills(account_id, after, limit + 1)
    for (const row of written) found.set(fillName(row.fill), row)
    const known = written.length > limit ? written.at(-1)?.seq : undefined
    for (const { fill, created, seen } of this.overlay.fillsOf(account_id)) {
      const seq = created ?? this.store.fillSeq(fill.order_id, fill.fill_index) ?? seen
      if (seq > after && (known === undefined || seq <= known)) found.set(fillName(fill), { seq, fill })
    }
    const sorted = [...found.values()].sort((a, b) => a.seq - b.seq)
    const page = pageOf(sorted, limit, ({ seq }) => seq)
    return { items: page.items.map(({ fill }) => fill), next_after: page.next_after }
  }

  payment<T>(kind: 'withdrawal' | 'reshape', id: string): T | undefined {
    return (this.overlay.payment(kind, id) as T | undefined) ?? this.store.payment<T>(kind, id)
  }

  /** A fill lives on after its order is final, so the newest of each index counts, not the one in the order event. */
  #withFills(order: wire.Order): wire.Order {
    if (order.filled_amount === '0') return order
    const fills = new Map<number, wire.Fill>()
    for (const fill of order.fills) fills.set(fill.fill_index, fill)
    for (const fill of this.store.fillsOf(order.order_id)) fills.set(fill.fill_index, fill)
    for (const { fill } of this.overlay.fillsOfOrder(order.order_id)) fills.set(fill.fill_index, fill)
    return { ...order, fills: [...fills.values()].sort((a, b) => a.fill_index - b.fill_index) }
  }
}

const fillName = (fill: wire.Fill): string => `${fill.order_id}/${fill.fill_index}`

function matches(order: wire.Order, { status, symbol }: OrderFilter): boolean {
  if (symbol !== undefined && order.symbol !== symbol) return false
  if (status === undefined) return true
  return status === 'open' ? isOpen(order.status) : order.status === status
}

/** Cuts `found`, which holds one more than `limit` when there is more. */
function pageOf<T>(found: T[], limit: number, seqOf: (item: T) => number): wire.Page<T> {
  if (found.length <= limit) return { items: found, next_after: null }
  const items = found.slice(0, limit)
  const last = items.at(-1)
  return { items, next_after: last === undefined ? null : seqOf(last) }
}
