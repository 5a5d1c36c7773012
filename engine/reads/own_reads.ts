/** Reads an account's own resources as JSON text; another account's resource is `not_owner`. */

import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { History, OrderFilter, Owned } from '../history/contract'
import { isOpen } from '../history/seal'
import type { Slices } from '../history/slices'
import { LIMITS } from '../limits'
import type { TradingKey } from '../machine/state/account'
import type { State } from '../machine/state/state'
import { LruTexts } from '../memory/texts'
import type { Caller, Json, OwnTexts, Page } from '../venue'
import type { InstrumentReads } from './public_reads'

/** The account's history does not change while its newest seq and the number of prunes do not. */
type Version = { seq: number; prunes: number }
type CachedText = Owned & Version

/** Texts of earlier reads, each valid while its account's history is unchanged. */
class TextCache {
  private readonly texts = new LruTexts<CachedText>(LIMITS.reads_characters_max)

  constructor(private readonly versionOf: (account_id: string) => Version) {}

  get(name: string): Owned | undefined {
    const cached = this.texts.get(name)
    if (cached === undefined) return undefined
    const { seq, prunes } = this.versionOf(cached.account_id)
    return cached.seq === seq && cached.prunes === prunes ? cached : undefined
  }

  set(name: string, read: Owned): void {
    const cached = { ...read, ...this.versionOf(read.account_id) }
    this.texts.set(name, cached, name.length + read.text.length)
  }

  clear(): void {
    this.texts.clear()
  }
}

export class OwnReads implements OwnTexts {
  private readonly cache: TextCache

  constructor(
    private readonly history: History,
    private readonly instruments: InstrumentReads,
    private readonly slices: Slices,
  ) {
    this.cache = new TextCache((account_id) => ({
      seq: history.seqLast(account_id),
      prunes: history.prunes(),
    }))
  }

  order(account_id: string, order_id: string): Json<wire.Order> {
    // No list has the name of an id. Accounts seldom have orders of one id, and none gets the text of another.
    const cached = this.cache.get(order_id)
    if (cached?.account_id === account_id) return cached.text
    const text = this.history.order(account_id, order_id)
    if (text === undefined) throw new Refusal(this.history.isOrder(order_id) ? 'not_owner' : 'order_unknown')
    this.cache.set(order_id, { account_id, text })
    return text
  }

  /** Throws `instrument_unknown` and `after_invalid`. */
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
    return owned(account_id, this.history.withdrawal(withdrawal_id), 'withdrawal_unknown')
  }

  reshape(account_id: string, reshape_id: string): Json<wire.Reshape> {
    return owned(account_id, this.history.reshape(reshape_id), 'reshape_unknown')
  }

  /** An own order's fills with their settlement stages. */
  settlementOfOrder(account_id: string, order_id: string): wire.OrderStages {
    const { fills } = JSON.parse(this.order(account_id, order_id)) as wire.Order
    return { order_id, fills }
  }

  /**
   * Open orders as of the account's seq. They are read in slices; orders that changed meanwhile are read again, the last of
   * them and the seq in one turn, so that both agree.
   */
  async snapshot(caller: Caller): Promise<{ seq: number; orders: Json<wire.Order[]> }> {
    const { account_id } = caller
    const { history, slices } = this
    const limit = LIMITS.slice_rows
    const orders = new Map<string, string>()
    let seq = history.seqLast(account_id)
    for (let after: number | null = 0; after !== null; ) {
      const from: number = after
      after = await slices.run(caller, () => {
        const page = history.orders(account_id, { status: 'open', after: from, limit })
        for (const text of page.items) orders.set((JSON.parse(text) as wire.Order).order_id, text)
        return page.next_after
      })
    }
    const readChanges = () => {
      const changes = history.events(account_id, seq, limit)
      const events = changes.items.map(({ text }) => JSON.parse(text) as wire.AccountEvent)
      seq = events.at(-1)?.seq ?? seq
      for (const { data } of events) if ('order_id' in data) this.readAgain(account_id, orders, data.order_id)
      return changes.next_after === null
    }
    while (!(await slices.run(caller, readChanges)));
    return { seq, orders: `[${[...orders.values()].join(',')}]` }
  }

  private readAgain(account_id: string, orders: Map<string, string>, order_id: string): void {
    const text = this.history.order(account_id, order_id)
    if (text !== undefined && isOpen((JSON.parse(text) as wire.Order).status)) orders.set(order_id, text)
    else orders.delete(order_id)
  }

  /** Drops all cached texts. */
  forget(): void {
    this.cache.clear()
  }

  private page(list: string, account_id: string, after: number, read: () => wire.Page<string>): string {
    // A cursor ahead of the log is a mistake or another account's. An empty page would hide that from the caller.
    if (after > this.history.seqLast(account_id)) throw new Refusal('after_invalid')
    const name = `${list}/${after}/${account_id}`
    const cached = this.cache.get(name)
    if (cached !== undefined) return cached.text
    const { items, next_after } = read()
    const text = `{"items":[${items.join(',')}],"next_after":${next_after}}`
    this.cache.set(name, { account_id, text })
    return text
  }
}

function owned(account_id: string, found: Owned | undefined, unknown: RefusalCode): string {
  if (found === undefined) throw new Refusal(unknown)
  if (found.account_id !== account_id) throw new Refusal('not_owner')
  return found.text
}

type ReadNonces = { place: bigint; cancel: bigint; nonces: Readonly<wire.Nonces> }
/** Of keys that were asked for: their last answers. */
const read_nonces = new WeakMap<TradingKey, ReadNonces>()

/**
 * Last nonces of an own trading key, frozen, the same object until they change; "0" for a key that never signed an accepted command. Throws `key_bound` for a key
 * of another account.
 */
export function noncesOf(state: State, account_id: string, trading_key: string): wire.Nonces {
  const key = state.keys.get(trading_key)
  if (key === undefined) return { place_nonce: '0', cancel_nonce: '0' }
  if (key.account.account_id !== account_id) throw new Refusal('key_bound')
  const { place_nonce: place, cancel_nonce: cancel } = key
  const known = read_nonces.get(key)
  if (known?.place === place && known.cancel === cancel) return known.nonces
  const nonces = Object.freeze({ place_nonce: place.toString(), cancel_nonce: cancel.toString() })
  read_nonces.set(key, { place, cancel, nonces })
  return nonces
}
