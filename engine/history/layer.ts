/** Owns the events of one batch that is not written yet. They are sorted out only when somebody reads. */
import type * as wire from '../../protocol/wire'
import type { NewEvent, Owned } from './contract'
import { dataText } from './event_text'

/** `created` is the seq of the first event if it is among those held, `seen` the first seq held. */
type Held = Owned & { created: number | undefined; seen: number }
export type HeldOrder = Held & { order: wire.Order }
export type HeldFill = Held & { fill: wire.Fill }

export class Layer {
  readonly #by_account = new Map<string, NewEvent[]>()
  readonly #all: NewEvent[] = []
  /** How many of all are sorted out below. */
  #sorted = 0
  readonly #orders = new Map<string, HeldOrder>()
  readonly #orders_of = new Map<string, HeldOrder[]>()
  readonly #fills = new Map<string, Map<number, HeldFill>>()
  readonly #fills_of = new Map<string, HeldFill[]>()
  readonly #payments = new Map<string, Owned>()

  get size(): number {
    return this.#all.length
  }

  add(one: NewEvent): void {
    this.#all.push(one)
    addTo(this.#by_account, one.account_id, one)
  }

  /** Accounts with their events, each account's in order. */
  byAccount = (): Iterable<[account_id: string, events: readonly NewEvent[]]> => this.#by_account

  events = (account_id: string): readonly NewEvent[] => this.#by_account.get(account_id) ?? []
  order = (order_id: string): HeldOrder | undefined => this.#sort().#orders.get(order_id)
  ordersOf = (account_id: string): readonly HeldOrder[] => this.#sort().#orders_of.get(account_id) ?? []
  fillsOfOrder = (order_id: string): Iterable<HeldFill> => this.#sort().#fills.get(order_id)?.values() ?? []
  fillsOf = (account_id: string): readonly HeldFill[] => this.#sort().#fills_of.get(account_id) ?? []
  payment = (kind: 'withdrawal' | 'reshape', id: string): Owned | undefined =>
    this.#sort().#payments.get(`${kind}/${id}`)

  #sort(): this {
    for (; this.#sorted < this.#all.length; this.#sorted++) this.#sortOne(this.#all[this.#sorted]!)
    return this
  }

  #sortOne({ account_id, event, text }: NewEvent): void {
    const { data } = event
    const owned = { account_id, text: dataText(text) }
    if ('fill_index' in data) this.#sortFill(event, data, owned)
    else if ('order_id' in data) this.#sortOrder(event, data, owned)
    else if ('withdrawal_id' in data) this.#payments.set(`withdrawal/${data.withdrawal_id}`, owned)
    else if ('reshape_id' in data) this.#payments.set(`reshape/${data.reshape_id}`, owned)
  }

  #sortOrder({ kind, seq }: wire.AccountEvent, order: wire.Order, owned: Owned): void {
    const known = this.#orders.get(order.order_id)
    if (known !== undefined) {
      known.order = order
      known.text = owned.text
      return
    }
    const created = kind === 'order.accepted' ? seq : undefined
    const held = { ...owned, order, created, seen: seq }
    this.#orders.set(order.order_id, held)
    addTo(this.#orders_of, owned.account_id, held)
  }

  #sortFill({ kind, seq }: wire.AccountEvent, fill: wire.Fill, owned: Owned): void {
    const of_order = this.#fills.get(fill.order_id) ?? new Map<number, HeldFill>()
    this.#fills.set(fill.order_id, of_order)
    const known = of_order.get(fill.fill_index)
    if (known !== undefined) {
      known.fill = fill
      known.text = owned.text
      return
    }
    const created = kind === 'fill.matched' ? seq : undefined
    const held = { ...owned, fill, created, seen: seq }
    of_order.set(fill.fill_index, held)
    addTo(this.#fills_of, owned.account_id, held)
  }
}

function addTo<T>(lists: Map<string, T[]>, name: string, item: T): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [item])
  else list.push(item)
}
