/** Reads events that are recorded and not yet written, one layer per batch. */

import type * as wire from '../../protocol/wire/trading'
import type { EventText, NewEvent, Owned } from './contract'
import { dataText } from './event_text'

/** `created` is the seq of the resource's first event if it is held here, `seen` the first seq held. */
type Held = Owned & { created: number | undefined; seen: number }
type HeldOrder = Held & { order: wire.Order }
type HeldFill = Held & { fill: wire.Fill }

/**
 * An account's events have no gaps, so the first seq and the texts suffice. Event objects would survive garbage
 * collections until they are written, and the collector would trace and promote each of their fields.
 */
type HeldEvents = { readonly seq_first: number; readonly texts: readonly string[] }
/** Of the first `sorted` texts the orders, fills and payments are indexed. */
type Account = { readonly seq_first: number; readonly texts: string[]; sorted: number }

/** The events of one batch, parsed and indexed only when a resource is read. */
export class Layer {
  private readonly by_account = new Map<string, Account>()
  private count = 0
  private readonly orders = new Map<string, HeldOrder>()
  private readonly orders_of = new Map<string, HeldOrder[]>()
  private readonly fills = new Map<string, Map<number, HeldFill>>()
  private readonly fills_of = new Map<string, HeldFill[]>()
  private readonly payments = new Map<string, Owned>()

  get size(): number {
    return this.count
  }

  add({ account_id, event, text }: NewEvent): void {
    const held = this.by_account.get(account_id)
    if (held === undefined)
      this.by_account.set(account_id, { seq_first: event.seq, texts: [text], sorted: 0 })
    else held.texts.push(text)
    this.count += 1
  }

  /** Accounts with their events in seq order. */
  byAccount = (): Iterable<[account_id: string, events: HeldEvents]> => this.by_account

  events = (account_id: string): HeldEvents | undefined => this.by_account.get(account_id)
  order = (order_id: string): HeldOrder | undefined => this.sort().orders.get(order_id)
  ordersOf = (account_id: string): readonly HeldOrder[] => this.sort().orders_of.get(account_id) ?? []
  fillsOfOrder = (order_id: string): Iterable<HeldFill> => this.sort().fills.get(order_id)?.values() ?? []
  fillsOf = (account_id: string): readonly HeldFill[] => this.sort().fills_of.get(account_id) ?? []
  payment = (kind: 'withdrawal' | 'reshape', id: string): Owned | undefined =>
    this.sort().payments.get(`${kind}/${id}`)

  /** The order of accounts does not matter, because a resource belongs to one account. */
  private sort(): this {
    for (const [account_id, held] of this.by_account) {
      for (; held.sorted < held.texts.length; held.sorted++) {
        this.sortOne(account_id, held.texts[held.sorted]!)
      }
    }
    return this
  }

  private sortOne(account_id: string, text: string): void {
    const event = JSON.parse(text) as wire.AccountEvent
    const { data } = event
    const owned = { account_id, text: dataText(text) }
    if ('fill_index' in data) this.sortFill(event, data, owned)
    else if ('trading_key' in data && 'order_id' in data) this.sortOrder(event, data, owned)
    else if ('withdrawal_id' in data) this.payments.set(`withdrawal/${data.withdrawal_id}`, owned)
    else if ('reshape_id' in data) this.payments.set(`reshape/${data.reshape_id}`, owned)
  }

  private sortOrder({ kind, seq }: wire.AccountEvent, order: wire.Order, owned: Owned): void {
    const known = this.orders.get(order.order_id)
    if (known !== undefined) {
      known.order = order
      known.text = owned.text
      return
    }
    const created = kind === 'order.accepted' ? seq : undefined
    const held = { ...owned, order, created, seen: seq }
    this.orders.set(order.order_id, held)
    addTo(this.orders_of, owned.account_id, held)
  }

  private sortFill({ kind, seq }: wire.AccountEvent, fill: wire.Fill, owned: Owned): void {
    const of_order = this.fills.get(fill.order_id) ?? new Map<number, HeldFill>()
    this.fills.set(fill.order_id, of_order)
    const known = of_order.get(fill.fill_index)
    if (known !== undefined) {
      known.fill = fill
      known.text = owned.text
      return
    }
    const created = kind === 'fill.matched' ? seq : undefined
    const held = { ...owned, fill, created, seen: seq }
    of_order.set(fill.fill_index, held)
    addTo(this.fills_of, owned.account_id, held)
  }
}

function addTo<T>(lists: Map<string, T[]>, name: string, item: T): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [item])
  else list.push(item)
}

/** All layers, read as one. */
export class Overlay {
  /** Oldest first; the last one is still being filled. */
  private readonly layers: Layer[] = [new Layer()]

  get filling(): Layer {
    return this.layers.at(-1)!
  }

  /** Starts the next layer. */
  begin(): void {
    this.layers.push(new Layer())
  }

  /** Drops the oldest layer after it was written. */
  dropOldest(): void {
    this.layers.shift()
  }

  /** First event held; an account's held events have no gaps. */
  seqFirst(account_id: string): number | undefined {
    for (const layer of this.layers) {
      const held = layer.events(account_id)
      if (held !== undefined) return held.seq_first
    }
    return undefined
  }

  seqLast(account_id: string): number | undefined {
    for (const layer of this.newestFirst()) {
      const held = layer.events(account_id)
      if (held !== undefined) return held.seq_first + held.texts.length - 1
    }
    return undefined
  }

  /** Events with seq > after, ascending. */
  events(account_id: string, after: number, limit: number): EventText[] {
    const found: EventText[] = []
    for (const layer of this.layers) {
      const held = layer.events(account_id)
      if (held === undefined) continue
      const { seq_first, texts } = held
      for (let at = Math.max(0, after + 1 - seq_first); at < texts.length && found.length < limit; at++) {
        found.push({ seq: seq_first + at, text: texts[at]! })
      }
    }
    return found
  }

  order(order_id: string): HeldOrder | undefined {
    return this.newest((layer) => layer.order(order_id))
  }

  ordersOf(account_id: string): Iterable<HeldOrder> {
    return this.merged(
      (layer) => layer.ordersOf(account_id),
      ({ order }) => order.order_id,
    )
  }

  fillsOfOrder(order_id: string): Iterable<HeldFill> {
    return this.merged(
      (layer) => layer.fillsOfOrder(order_id),
      ({ fill }) => fill.fill_index,
    )
  }

  fillsOf(account_id: string): Iterable<HeldFill> {
    return this.merged(
      (layer) => layer.fillsOf(account_id),
      ({ fill }) => `${fill.order_id}/${fill.fill_index}`,
    )
  }

  payment(kind: 'withdrawal' | 'reshape', id: string): Owned | undefined {
    return this.newest((layer) => layer.payment(kind, id))
  }

  private newest<T>(read: (layer: Layer) => T | undefined): T | undefined {
    for (const layer of this.newestFirst()) {
      const found = read(layer)
      if (found !== undefined) return found
    }
    return undefined
  }

  private *newestFirst(): Generator<Layer> {
    for (let at = this.layers.length - 1; at >= 0; at--) yield this.layers[at]!
  }

  /** The newest version of each resource, with `created` and `seen` of its first event held. */
  private merged<T extends { created: number | undefined; seen: number }>(
    read: (layer: Layer) => Iterable<T>,
    nameOf: (held: T) => string | number,
  ): Iterable<T> {
    const found = new Map<string | number, T>()
    for (const layer of this.layers) {
      for (const held of read(layer)) {
        const { created, seen } = found.get(nameOf(held)) ?? held
        found.set(nameOf(held), { ...held, created: created ?? held.created, seen })
      }
    }
    return found.values()
  }
}
