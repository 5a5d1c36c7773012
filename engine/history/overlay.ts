/** Owns what is recorded and not yet written, layer by layer, and reads it as one. */
import type { EventText, Owned } from './contract'
import { type HeldFill, type HeldOrder, Layer } from './layer'

export class Overlay {
  /** Oldest first; the last one is still filling. */
  readonly #layers: Layer[] = [new Layer()]

  get filling(): Layer {
    return this.#layers.at(-1)!
  }

  /** What is recorded from now on is of another layer. */
  begin(): void {
    this.#layers.push(new Layer())
  }

  /** The oldest layer is written. */
  dropOldest(): void {
    this.#layers.shift()
  }

  /** Of the events held; they follow each other without a gap. */
  seqFirst(account_id: string): number | undefined {
    for (const layer of this.#layers) {
      const held = layer.events(account_id)
      if (held !== undefined) return held.seq_first
    }
    return undefined
  }

  seqLast(account_id: string): number | undefined {
    for (const layer of this.#newestFirst()) {
      const held = layer.events(account_id)
      if (held !== undefined) return held.seq_first + held.texts.length - 1
    }
    return undefined
  }

  /** Events with seq > after, ascending. */
  events(account_id: string, after: number, limit: number): EventText[] {
    const found: EventText[] = []
    for (const layer of this.#layers) {
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
    return this.#newest((layer) => layer.order(order_id))
  }

  ordersOf(account_id: string): Iterable<HeldOrder> {
    return this.#merged(
      (layer) => layer.ordersOf(account_id),
      ({ order }) => order.order_id,
    )
  }

  fillsOfOrder(order_id: string): Iterable<HeldFill> {
    return this.#merged(
      (layer) => layer.fillsOfOrder(order_id),
      ({ fill }) => fill.fill_index,
    )
  }

  fillsOf(account_id: string): Iterable<HeldFill> {
    return this.#merged(
      (layer) => layer.fillsOf(account_id),
      ({ fill }) => `${fill.order_id}/${fill.fill_index}`,
    )
  }

  payment(kind: 'withdrawal' | 'reshape', id: string): Owned | undefined {
    return this.#newest((layer) => layer.payment(kind, id))
  }

  #newest<T>(read: (layer: Layer) => T | undefined): T | undefined {
    for (const layer of this.#newestFirst()) {
      const found = read(layer)
      if (found !== undefined) return found
    }
    return undefined
  }

  *#newestFirst(): Generator<Layer> {
    for (let at = this.#layers.length - 1; at >= 0; at--) yield this.#layers[at]!
  }

  /** The newest of each name, with the seq of its first event. */
  #merged<T extends { created: number | undefined; seen: number }>(
    read: (layer: Layer) => Iterable<T>,
    nameOf: (held: T) => string | number,
  ): Iterable<T> {
    const found = new Map<string | number, T>()
    for (const layer of this.#layers) {
      for (const held of read(layer)) {
        const { created, seen } = found.get(nameOf(held)) ?? held
        found.set(nameOf(held), { ...held, created: created ?? held.created, seen })
      }
    }
    return found.values()
  }
}
