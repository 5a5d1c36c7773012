/** Reads events that are recorded and not yet written, one layer per batch. */

import type * as wire from '../../protocol/wire/trading'
import { LIMITS } from '../limits'
import type { EventText, LoggedEvents, NewEvent, Owned } from './contract'
import { EventLog } from './event_log'
import { dataText } from './event_text'

/** `text` is the newest event; `created` the seq of the first one if it is held here, `seen` the first seq held. */
type Held = { text: string; created: number | undefined; seen: number }
type HeldOrder = Held & { order: wire.Order }
type HeldFill = Held & { fill: wire.Fill }

/**
 * Identifies a fill among those of an account's orders of one id: an order has at most one in a slot, and an id is used again only
 * slots later.
 */
const fillName = ({ fill_index, slot }: wire.Fill): string => `${fill_index}/${slot}`

/** Of the first `sorted` texts. Orders are in the order of their first events held, `newest` by id, fills by id and name. */
type Index = {
  sorted: number
  readonly orders: HeldOrder[]
  readonly newest: Map<string, HeldOrder>
  readonly fills: Map<string, Map<string, HeldFill>>
}

/** One account's events of a batch. They have no gaps, so the first seq and the places of the texts suffice. */
class AccountEvents {
  private readonly places: number[] = []
  private index: Index | undefined

  constructor(
    private readonly log: EventLog,
    private readonly number: number,
    readonly seq_first: number,
  ) {}

  get count(): number {
    return this.places.length
  }

  add(event: NewEvent): void {
    this.places.push(this.log.add(this.number, event))
  }

  text = (at: number): string => this.log.text(this.places[at]!)

  /** Parses and indexes the texts added since the last read. */
  sort(): Omit<Index, 'sorted'> {
    this.index ??= { sorted: 0, orders: [], newest: new Map(), fills: new Map() }
    const { index, count } = this
    for (; index.sorted < count; index.sorted++) sortOne(index, this.text(index.sorted))
    return index
  }
}

function sortOne({ orders, newest, fills }: Index, text: string): void {
  const { kind, seq, data } = JSON.parse(text) as wire.AccountEvent
  if ('fill_index' in data) {
    const of_id = fills.get(data.order_id) ?? new Map<string, HeldFill>()
    fills.set(data.order_id, of_id)
    const known = of_id.get(fillName(data))
    // A fill that was voided before it was hashed has had its first event.
    const created = kind === 'fill.matched' && data.stage === 'matched' ? seq : undefined
    if (known !== undefined) Object.assign(known, { fill: data, text })
    else of_id.set(fillName(data), { fill: data, text, created, seen: seq })
  } else if ('trading_key' in data && 'order_id' in data) {
    const known = newest.get(data.order_id)
    const created = kind === 'order.accepted' ? seq : undefined
    if (known !== undefined && created === undefined) Object.assign(known, { order: data, text })
    else {
      const held = { order: data, text, created, seen: seq }
      newest.set(data.order_id, held)
      orders.push(held)
    }
  }
}

/** The events of one batch. An account's are parsed when one of its orders or fills is read. */
export class Layer {
  private readonly by_account = new Map<string, AccountEvents>()
  private readonly log: EventLog
  private count = 0
  private readonly order_ids = new Set<string>()
  private readonly payments = new Map<string, Owned>()

  /** @param memory of a layer that is no longer read */
  constructor(memory?: Buffer) {
    this.log = new EventLog(memory)
  }

  get size(): number {
    return this.count
  }

  add(one: NewEvent): void {
    const { account_id, event, text } = one
    const { kind, seq, data } = event
    let held = this.by_account.get(account_id)
    if (held === undefined) {
      held = new AccountEvents(this.log, this.by_account.size, seq)
      this.by_account.set(account_id, held)
    }
    held.add(one)
    this.count += 1
    if (kind === 'order.accepted') this.order_ids.add((data as wire.Order).order_id)
    else if ('withdrawal_id' in data)
      this.payments.set(`withdrawal/${data.withdrawal_id}`, { account_id, text })
    else if ('reshape_id' in data) this.payments.set(`reshape/${data.reshape_id}`, { account_id, text })
  }

  events = (): LoggedEvents => ({ ...this.log.shared(), account_ids: [...this.by_account.keys()] })
  free = (): Buffer => this.log.free()

  of = (account_id: string): AccountEvents | undefined => this.by_account.get(account_id)
  isOrder = (order_id: string): boolean => this.order_ids.has(order_id)
  payment = (kind: 'withdrawal' | 'reshape', id: string): Owned | undefined =>
    this.payments.get(`${kind}/${id}`)
}

/** All layers, read as one. */
export class Overlay {
  /** Oldest first; the last one is still being filled. */
  private readonly layers: Layer[] = [new Layer()]
  /** Of the layer dropped last. */
  private memory: Buffer | undefined

  get filling(): Layer {
    return this.layers.at(-1)!
  }

  /** Starts the next layer. */
  begin(): void {
    this.layers.push(new Layer(this.memory))
    this.memory = undefined
  }

  /** Drops the oldest layer after it was written. */
  dropOldest(): void {
    const memory = this.layers.shift()!.free()
    if (memory.length <= LIMITS.history_log_kept_bytes) this.memory = memory
  }

  /** First event held; an account's held events have no gaps. */
  seqFirst(account_id: string): number | undefined {
    for (const layer of this.layers) {
      const held = layer.of(account_id)
      if (held !== undefined) return held.seq_first
    }
    return undefined
  }

  seqLast(account_id: string): number | undefined {
    for (const layer of this.newestFirst()) {
      const held = layer.of(account_id)
      if (held !== undefined) return held.seq_first + held.count - 1
    }
    return undefined
  }

  /** Events with seq > after, ascending. */
  events(account_id: string, after: number, limit: number): EventText[] {
    const found: EventText[] = []
    for (const layer of this.layers) {
      const held = layer.of(account_id)
      if (held === undefined) continue
      const { seq_first, count } = held
      for (let at = Math.max(0, after + 1 - seq_first); at < count && found.length < limit; at++) {
        found.push({ seq: seq_first + at, text: held.text(at) })
      }
    }
    return found
  }

  /** The newest event of the account's newest order of this id. */
  order(account_id: string, order_id: string): HeldOrder | undefined {
    return this.newest((layer) => layer.of(account_id)?.sort().newest.get(order_id))
  }

  isOrder(order_id: string): boolean {
    return this.layers.some((layer) => layer.isOrder(order_id))
  }

  /** The newest version of each order, with `created` and `seen` of its first event held. */
  ordersOf(account_id: string): readonly HeldOrder[] {
    const found: HeldOrder[] = []
    const newest = new Map<string, HeldOrder>()
    for (const layer of this.layers) {
      for (const held of layer.of(account_id)?.sort().orders ?? []) {
        const { order, text, created } = held
        const known = newest.get(order.order_id)
        if (known !== undefined && created === undefined) Object.assign(known, { order, text })
        else {
          const copy = { ...held }
          newest.set(order.order_id, copy)
          found.push(copy)
        }
      }
    }
    return found
  }

  /** Versions of fills of the account's orders of this id, older ones first. */
  *fillsOfOrder(account_id: string, order_id: string): Generator<HeldFill> {
    for (const layer of this.layers) {
      const held = layer.of(account_id)?.sort().fills.get(order_id)
      if (held !== undefined) yield* held.values()
    }
  }

  /** The newest version of each fill, with `created` and `seen` of its first event held. */
  fillsOf(account_id: string): Iterable<HeldFill> {
    const found = new Map<string, HeldFill>()
    for (const layer of this.layers) {
      for (const [order_id, fills] of layer.of(account_id)?.sort().fills ?? []) {
        for (const [fill_name, held] of fills) {
          const name = `${order_id}/${fill_name}`
          const { created, seen } = found.get(name) ?? held
          found.set(name, { ...held, created, seen })
        }
      }
    }
    return found.values()
  }

  payment(kind: 'withdrawal' | 'reshape', id: string): Owned | undefined {
    const found = this.newest((layer) => layer.payment(kind, id))
    return found && { ...found, text: dataText(found.text) }
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
}
