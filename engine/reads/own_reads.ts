/** An account's own resources as JSON text: unknown is 404, another account's is 403. */

import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { Nonces } from '../../protocol/wire/trading'
import type { History, OrderFilter, Owned } from '../history/contract'
import { LruTexts } from '../history/lru_texts'
import { hexOf, keyOf, orderIdOf } from '../intake/form'
import { LIMITS } from '../limits'
import type { State } from '../machine/state/state'
import type { Json, OwnTexts, Page } from '../venue'
import type { InstrumentReads } from './public_reads'

// Keeps the texts of an account's reads while nothing of the account changes: a caller that asks again costs no work.

/** What the text was true at. */
type ReadAt = { account_id: string; seq: number; prunes: number }
type Kept = ReadAt & { text: string }

class KeptTexts {
  readonly #texts = new LruTexts<Kept>(LIMITS.reads_characters_max)

  /** `now` says where the account of the text is today; the text holds as long as it is where it was. */
  get(name: string, now: (account_id: string) => Omit<ReadAt, 'account_id'>): Kept | undefined {
    const kept = this.#texts.get(name)
    if (kept === undefined) return undefined
    const { seq, prunes } = now(kept.account_id)
    return kept.seq === seq && kept.prunes === prunes ? kept : undefined
  }

  set(name: string, kept: Kept): void {
    this.#texts.set(name, kept, name.length + kept.text.length)
  }

  clear(): void {
    this.#texts.clear()
  }
}

// Last nonces of an own trading key.

/**
 * "0" for a key that never signed an accepted command. Refuses `key_bound` for a key of another account, and
 * `field_invalid` for what is no key.
 */
export function noncesOf(state: State, account_id: string, trading_key: string): Nonces {
  const key = state.keys.get(trading_key)
  if (key === undefined) {
    keyOf(trading_key, 'trading_key')
    return { place_nonce: '0', cancel_nonce: '0' }
  }
  if (key.account.account_id !== account_id) throw new Refusal('key_bound')
  return { place_nonce: key.place_nonce.toString(), cancel_nonce: key.cancel_nonce.toString() }
}

// An account's own resources, from the durable read models, as JSON text: unknown is 404, another account's is 403.

export class OwnReads implements OwnTexts {
  private readonly kept = new KeptTexts()

  constructor(
    private readonly history: History,
    private readonly instruments: InstrumentReads,
  ) {}

  order(account_id: string, order_id: string): Json<wire.Order> {
    const name = `order/${order_id}`
    const found = this.kept.get(name, this.at) ?? this.readOrder(name, order_id)
    return owned(account_id, found, 'order_unknown')
  }

  /** Refuses `instrument_unknown` and `after_invalid`. */
  orders(account_id: string, filter: OrderFilter): Json<wire.Page<wire.Order>> {
    const { status = '', symbol = '', after, limit } = filter
    if (symbol !== '') this.instruments.one(symbol)
    return this.page(`orders/${status}/${symbol}/${limit}`, account_id, after, () =>
      this.history.orders(account_id, filter),
    )
  }

  fills(account_id: string, { after, limit }: Page): Json<wire.Page<wire.Fill>> {
    return this.page(`fills/${limit}`, account_id, after, () => this.history.fills(account_id, after, limit))
  }

  events(account_id: string, { after, limit }: Page): Json<wire.Page<wire.AccountEvent>> {
    return this.page(`events/${limit}`, account_id, after, () => {
      const { items, next_after } = this.history.events(account_id, after, limit)
      return { items: items.map(({ text }) => text), next_after }
    })
  }

  withdrawal(account_id: string, withdrawal_id: string): Json<wire.Withdrawal> {
    hexOf(withdrawal_id, 'withdrawal_id', 16)
    return owned(account_id, this.history.withdrawal(withdrawal_id), 'withdrawal_unknown')
  }

  reshape(account_id: string, reshape_id: string): Json<wire.Reshape> {
    hexOf(reshape_id, 'reshape_id', 16)
    return owned(account_id, this.history.reshape(reshape_id), 'reshape_unknown')
  }

  /** The stages of an own order's fills. */
  settlementOfOrder(account_id: string, order_id: string): { order_id: string; fills: wire.Fill[] } {
    const { fills } = JSON.parse(this.order(account_id, order_id)) as wire.Order
    return { order_id, fills }
  }

  /** Live orders and the seq they are true at; one synchronous turn, so both agree. */
  snapshot(account_id: string): { seq: number; orders: Json<wire.Order[]> } {
    const orders: string[] = []
    let after: number | null = 0
    while (after !== null) {
      const limit = LIMITS.page_items_max
      const page: wire.Page<string> = this.history.orders(account_id, { status: 'open', after, limit })
      orders.push(...page.items)
      after = page.next_after
    }
    return { seq: this.history.seqLast(account_id), orders: `[${orders.join(',')}]` }
  }

  /** Forgets what was kept for the next reader. */
  forget(): void {
    this.kept.clear()
  }

  private readonly at = (account_id: string) => {
    return { seq: this.history.seqLast(account_id), prunes: this.history.prunes() }
  }

  private readOrder(name: string, order_id: string): Owned | undefined {
    orderIdOf(order_id)
    return this.keep(name, this.history.order(order_id))
  }

  private keep<T extends Owned | undefined>(name: string, read: T): T {
    if (read !== undefined) this.kept.set(name, { ...read, ...this.at(read.account_id) })
    return read
  }

  private page(list: string, account_id: string, after: number, read: () => wire.Page<string>): string {
    // A cursor ahead of the account's log is another account's, or a mistake: an empty page would hide it for ever.
    if (after > this.history.seqLast(account_id)) throw new Refusal('after_invalid')
    const name = `${list}/${after}/${account_id}`
    const kept = this.kept.get(name, this.at)
    if (kept !== undefined) return kept.text
    const { items, next_after } = read()
    const text = `{"items":[${items.join(',')}],"next_after":${next_after}}`
    return this.keep(name, { account_id, text }).text
  }
}

function owned(account_id: string, found: Owned | undefined, unknown: RefusalCode): string {
  if (found === undefined) throw new Refusal(unknown)
  if (found.account_id !== account_id) throw new Refusal('not_owner')
  return found.text
}
