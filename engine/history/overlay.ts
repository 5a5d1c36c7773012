/** Owns what is recorded and not yet written, in the shape reads need. */
import type * as wire from '../../protocol/wire'
import type { NewEvent } from './contract'

/** `created` is the seq of the first event if it is among those held here, `seen` the first seq held. */
export type OrderEntry = {
  account_id: string
  order: wire.Order
  created: number | undefined
  seen: number
  batch: number
}
export type FillEntry = {
  account_id: string
  fill: wire.Fill
  created: number | undefined
  seen: number
  batch: number
}
type PaymentEntry = { value: unknown; batch: number }

export class Overlay {
  readonly #events = new Map<string, wire.AccountEvent[]>()
  readonly #orders = new Map<string, OrderEntry>()
  readonly #orders_of = new Map<string, Set<OrderEntry>>()
  readonly #fills = new Map<string, Map<number, FillEntry>>()
  readonly #fills_of = new Map<string, Set<FillEntry>>()
  readonly #payments = new Map<string, PaymentEntry>()

  /** `batch` is the write the event will go out with; batches only grow. */
  add(batch: number, { account_id, event }: NewEvent): void {
    const events = this.#events.get(account_id)
    if (events === undefined) this.#events.set(account_id, [event])
    else events.push(event)
    const subject = event.kind.slice(0, event.kind.indexOf('.'))
    if (subject === 'order') this.#addOrder(batch, account_id, event)
    else if (subject === 'fill') this.#addFill(batch, account_id, event)
    else if (subject === 'withdrawal') {
      const withdrawal = event.data as wire.Withdrawal
      const value = { account_id, withdrawal }
      this.#payments.set(`withdrawal/${withdrawal.withdrawal_id}`, { value, batch })
    } else if (subject === 'reshape') {
      const reshape = event.data as wire.Reshape
      this.#payments.set(`reshape/${reshape.reshape_id}`, { value: { account_id, reshape }, batch })
    }
  }

  #addOrder(batch: number, account_id: string, { kind, seq, data }: wire.AccountEvent): void {
    const order = data as wire.Order
    const entry = this.#orders.get(order.order_id)
    if (entry !== undefined) {
      entry.order = order
      entry.batch = batch
      return
    }
    const created = kind === 'order.accepted' ? seq : undefined
    const made = { account_id, order, created, seen: seq, batch }
    this.#orders.set(order.order_id, made)
    addTo(this.#orders_of, account_id, made)
  }

  #addFill(batch: number, account_id: string, { kind, seq, data }: wire.AccountEvent): void {
    const fill = data as wire.Fill
    let of_order = this.#fills.get(fill.order_id)
    if (of_order === undefined) {
      of_order = new Map()
      this.#fills.set(fill.order_id, of_order)
    }
    const entry = of_order.get(fill.fill_index)
    if (entry !== undefined) {
      entry.fill = fill
      entry.batch = batch
      return
    }
    const created = kind === 'fill.matched' ? seq : undefined
    const made = { account_id, fill, created, seen: seq, batch }
    of_order.set(fill.fill_index, made)
    addTo(this.#fills_of, account_id, made)
  }

  /** Forgets what the written batch held, unless a later one holds something newer. */
  drop(batch: number, events: readonly NewEvent[]): void {
    for (const [account_id, count] of countByAccount(events)) {
      const held = this.#events.get(account_id)
      if (held === undefined || held.length <= count) this.#events.delete(account_id)
      else held.splice(0, count)
    }
    for (const { event } of events) this.#dropSubject(batch, event.data)
  }

  #dropSubject(batch: number, data: wire.AccountEvent['data']): void {
    if ('fill_index' in data) {
      const of_order = this.#fills.get(data.order_id)
      const entry = of_order?.get(data.fill_index)
      if (of_order === undefined || entry?.batch !== batch) return
      of_order.delete(data.fill_index)
      if (of_order.size === 0) this.#fills.delete(data.order_id)
      removeFrom(this.#fills_of, entry.account_id, entry)
    } else if ('order_id' in data) {
      const entry = this.#orders.get(data.order_id)
      if (entry?.batch !== batch) return
      this.#orders.delete(data.order_id)
      removeFrom(this.#orders_of, entry.account_id, entry)
    } else if ('withdrawal_id' in data) this.#dropPayment(batch, `withdrawal/${data.withdrawal_id}`)
    else if ('reshape_id' in data) this.#dropPayment(batch, `reshape/${data.reshape_id}`)
  }

  #dropPayment(batch: number, name: string): void {
    if (this.#payments.get(name)?.batch === batch) this.#payments.delete(name)
  }

  events = (account_id: string): readonly wire.AccountEvent[] => this.#events.get(account_id) ?? []
  order = (order_id: string): OrderEntry | undefined => this.#orders.get(order_id)
  ordersOf = (account_id: string): Iterable<OrderEntry> => this.#orders_of.get(account_id) ?? []
  fillsOfOrder = (order_id: string): Iterable<FillEntry> => this.#fills.get(order_id)?.values() ?? []
  fillsOf = (account_id: string): Iterable<FillEntry> => this.#fills_of.get(account_id) ?? []
  payment = (kind: 'withdrawal' | 'reshape', id: string): unknown =>
    this.#payments.get(`${kind}/${id}`)?.value
}

function countByAccount(events: readonly NewEvent[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { account_id } of events) counts.set(account_id, (counts.get(account_id) ?? 0) + 1)
  return counts
}

function addTo<T>(sets: Map<string, Set<T>>, name: string, item: T): void {
  const set = sets.get(name)
  if (set === undefined) sets.set(name, new Set([item]))
  else set.add(item)
}

function removeFrom<T>(sets: Map<string, Set<T>>, name: string, item: T): void {
  const set = sets.get(name)
  set?.delete(item)
  if (set?.size === 0) sets.delete(name)
}
