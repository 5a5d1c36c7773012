/** What each order was, and what auctions gave it, kept beside the venue: original = filled + live + ended, at every step. */

import type { Command } from '../../engine/commands'
import type { AuctionRecord, Outcome } from '../../engine/machine/state/outcome'
import type { State } from '../../engine/machine/state/state'
import type { Order as WireOrder } from '../../protocol/wire/trading'
import { LOT, TICK } from '../kit/venue/machine_world'

type Accepted = Extract<Outcome, { ok: true }>
type Kept = {
  symbol: string
  account_id: string
  side: 'buy' | 'sell'
  type: 'limit' | 'ioc' | 'fok'
  lots: number
  ticks: number
  min_lots: number
  filled: number
}

export class OrderLedger {
  readonly #live = new Map<string, Kept>()
  /** Replacements that wait for a decision, by number. */
  readonly #waiting = new Map<number, Modify>()
  fills = 0
  auctions = 0
  ended = 0

  /** @throws Error naming the order or auction that does not add up */
  seen(command: Command, outcome: Accepted): void {
    if (command.kind === 'place') this.#add(command.account_id, command)
    if (command.kind === 'modify') this.#modified(command, outcome)
    for (const auction of outcome.auctions) this.#auction(auction)
    for (const [number, effect] of outcome.effects) {
      const waited = this.#waiting.get(number)
      this.#waiting.delete(number)
      if (waited !== undefined && 'kind' in effect) this.#add(waited.account_id, waited.replacement)
    }
    for (const { event } of outcome.events) {
      const { order_id, filled_amount, remaining_amount, status } = event.data as WireOrder
      if (!['order.cancelled', 'order.expired', 'order.replaced', 'order.filled'].includes(event.kind))
        continue
      const kept = this.#live.get(order_id)
      if (kept === undefined) throw new Error(`order ${order_id} ended twice`)
      if (BigInt(filled_amount) !== BigInt(kept.filled) * LOT)
        throw new Error(`order ${order_id} tells ${filled_amount} filled of ${kept.filled} lots`)
      const whole = kept.filled === kept.lots
      if ((status === 'filled') !== whole) throw new Error(`order ${order_id} is ${status}, whole ${whole}`)
      if (!whole && BigInt(remaining_amount) !== BigInt(kept.lots - kept.filled) * LOT)
        throw new Error(`order ${order_id} tells ${remaining_amount} remaining`)
      this.#live.delete(order_id)
      this.ended += 1
    }
  }

  /** The replacement of a member is an order after the decision, unless it is rejected then. */
  #modified(command: Modify, { answer }: Accepted): void {
    const number = answer.kind === 'modify' ? answer.number : undefined
    if (number === undefined) this.#add(command.account_id, command.replacement)
    else this.#waiting.set(number, command)
  }

  /** Every live order rests with exactly what no auction gave it. */
  check(state: State): void {
    if (state.orders.size !== this.#live.size)
      throw new Error(`${state.orders.size} orders are live where ${this.#live.size} were left`)
    for (const order of state.orders.values()) {
      const kept = this.#live.get(order.order_id)
      if (kept === undefined || kept.lots !== order.lots || order.remaining !== kept.lots - kept.filled)
        throw new Error(`order ${order.order_id} rests with ${order.remaining} lots`)
    }
  }

  #add(account_id: string, body: Extract<Command, { kind: 'place' }> | Replacement): void {
    const { symbol, side, type } = body
    const [lots, min_lots] = [Number(body.amount / LOT), Number(body.min_fill / LOT)]
    const kept = { symbol, account_id, side, type, lots, min_lots, ticks: Number(body.price_limit / TICK) }
    this.#live.set(body.order_id.toHex(), { ...kept, filled: 0 })
  }

  /** Lots bought are lots sold, at a price inside every limit, to one side of each account; minima are kept. */
  #auction({ symbol, batch, price_ticks, volume_lots, fills }: AuctionRecord): void {
    this.auctions += 1
    const sums = { buy: 0, sell: 0 }
    const sides = new Map<string, 'buy' | 'sell'>()
    for (const { order_id, lots } of fills) {
      const kept = this.#live.get(order_id)
      const fails = (what: string) => new Error(`${symbol} auction ${batch}, order ${order_id}: ${what}`)
      if (kept === undefined || kept.symbol !== symbol) throw fails('filled and not live')
      const { side, ticks, account_id } = kept
      if (price_ticks === null || (side === 'buy' ? ticks < price_ticks : ticks > price_ticks))
        throw fails('filled beyond its limit')
      const rest = kept.lots - kept.filled
      const least = kept.type === 'fok' ? kept.lots : Math.min(kept.min_lots, rest)
      if (lots < Math.max(1, least) || lots > rest) throw fails(`${lots} of ${rest} lots, at least ${least}`)
      if ((sides.get(account_id) ?? side) !== side) throw fails('its account is on both sides')
      sides.set(account_id, side)
      sums[side] += lots
      kept.filled += lots
      this.fills += 1
    }
    if (sums.buy !== volume_lots || sums.sell !== volume_lots)
      throw new Error(
        `${symbol} auction ${batch}: ${sums.buy} bought, ${sums.sell} sold, ${volume_lots} told`,
      )
  }
}

type Modify = Extract<Command, { kind: 'modify' }>
type Replacement = Modify['replacement']
