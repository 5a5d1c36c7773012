/** Reads what is written in the database, on the engine's own thread. Every method may throw: the caller judges. */
import type { Database } from 'bun:sqlite'
import type * as wire from '../../protocol/wire'
import { LIMITS } from '../limits'
import { saltReader } from './database'
import { eventRow, fillRow, orderRow, paymentRow } from './rows'
import { Names, Unsealer } from './seal'

export type OwnedOrder = { account_id: string; order: wire.Order }
type Sealed = { seq: number; id: Uint8Array; sealed: Uint8Array }
type SealedFill = Sealed & { fill_index: number }

export class Store {
  readonly #db: Database
  readonly #names: Names
  readonly #unsealer: Unsealer

  constructor(db: Database, key: Uint8Array) {
    this.#db = db
    this.#names = new Names(key)
    this.#unsealer = new Unsealer(key, saltReader(db))
  }

  account(account_id: string): { seq_first: number; seq_last: number } | undefined {
    const found = this.#db
      .query<{ seq_first: number; seq_last: number }, [Uint8Array]>(
        'SELECT seq_first, seq_last FROM accounts WHERE account = ?',
      )
      .get(this.#account(account_id))
    return found ?? undefined
  }

  /** Events with after < seq < before. */
  events(account_id: string, after: number, before: number, limit: number): wire.AccountEvent[] {
    return this.#db
      .query<{ seq: number; sealed: Uint8Array }, [Uint8Array, number, number, number]>(
        'SELECT seq, sealed FROM events WHERE account = ? AND seq > ? AND seq < ? ORDER BY seq LIMIT ?',
      )
      .all(this.#account(account_id), after, before, limit)
      .map(({ seq, sealed }) => this.#open(eventRow(account_id, seq), sealed))
  }

  order(order_id: string): OwnedOrder | undefined {
    const id = this.#names.of('order', order_id)
    const found = this.#db
      .query<{ sealed: Uint8Array }, [Uint8Array]>('SELECT sealed FROM orders WHERE id = ?')
      .get(id)
    return found === null ? undefined : this.#open(orderRow(id), found.sealed)
  }

  /** seq of the order's first event. */
  orderSeq(order_id: string): number | undefined {
    const id = this.#names.of('order', order_id)
    return this.#db.query<{ seq: number }, [Uint8Array]>('SELECT seq FROM orders WHERE id = ?').get(id)?.seq
  }

  /**
   * Orders that match, ascending by creation, up to `through`, lazily. `through` is where a filtered scan stops (the
   * row `history_scan_rows_max`), so that a rare symbol never means a long pause; undefined when it reaches the end.
   */
  orders(
    account_id: string,
    filter: { status?: 'open' | wire.OrderStatus; symbol?: string; after: number },
  ): { through: number | undefined; rows: Iterable<OwnedOrder & { seq: number }> } {
    const account = this.#account(account_id)
    const open = filter.status === 'open'
    const from = `FROM orders WHERE account = ? AND seq > ?${open ? ' AND open = 1' : ''}`
    const conditions: string[] = []
    const values: (Uint8Array | number)[] = [account, filter.after]
    if (filter.status !== undefined && !open) {
      conditions.push(' AND status = ?')
      values.push(this.#names.of('status', account_id, filter.status))
    }
    if (filter.symbol !== undefined) {
      conditions.push(' AND symbol = ?')
      values.push(this.#names.of('symbol', account_id, filter.symbol))
    }
    const through = conditions.length === 0 ? undefined : this.#scanEnd(from, account, filter.after)
    if (through !== undefined) {
      conditions.push(' AND seq <= ?')
      values.push(through)
    }
    const select = this.#db.query<Sealed, (Uint8Array | number)[]>(
      `SELECT seq, id, sealed ${from}${conditions.join('')} ORDER BY seq`,
    )
    return { through, rows: this.#openOrders(select.iterate(...values)) }
  }

  #scanEnd(from: string, account: Uint8Array, after: number): number | undefined {
    return this.#db
      .query<{ seq: number }, [Uint8Array, number, number]>(
        `SELECT seq ${from} ORDER BY seq LIMIT 1 OFFSET ?`,
      )
      .get(account, after, LIMITS.history_scan_rows_max)?.seq
  }

  *#openOrders(rows: Iterable<Sealed>): Generator<OwnedOrder & { seq: number }> {
    for (const { seq, id, sealed } of rows) yield { seq, ...this.#open<OwnedOrder>(orderRow(id), sealed) }
  }

  fillsOf(order_id: string): wire.Fill[] {
    const id = this.#names.of('order', order_id)
    return this.#db
      .query<{ fill_index: number; sealed: Uint8Array }, [Uint8Array]>(
        'SELECT fill_index, sealed FROM fills WHERE id = ? ORDER BY fill_index',
      )
      .all(id)
      .map(({ fill_index, sealed }) => this.#open(fillRow(id, fill_index), sealed))
  }

  fillSeq(order_id: string, fill_index: number): number | undefined {
    return this.#db
      .query<{ seq: number }, [Uint8Array, number]>('SELECT seq FROM fills WHERE id = ? AND fill_index = ?')
      .get(this.#names.of('order', order_id), fill_index)?.seq
  }

  /** Fills of the account ascending by creation, with the seq of their first event. */
  fills(account_id: string, after: number, limit: number): { seq: number; fill: wire.Fill }[] {
    return this.#db
      .query<SealedFill, [Uint8Array, number, number]>(
        'SELECT seq, id, fill_index, sealed FROM fills WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?',
      )
      .all(this.#account(account_id), after, limit)
      .map(({ seq, id, fill_index, sealed }) => ({ seq, fill: this.#open(fillRow(id, fill_index), sealed) }))
  }

  payment<T>(kind: 'withdrawal' | 'reshape', payment_id: string): T | undefined {
    const found = this.#db
      .query<{ sealed: Uint8Array }, [Uint8Array]>('SELECT sealed FROM payments WHERE id = ?')
      .get(this.#names.of(kind, payment_id))
    return found === null ? undefined : this.#open(paymentRow(kind, payment_id), found.sealed)
  }

  close(): void {
    this.#db.close()
  }

  #account(account_id: string): Uint8Array {
    return this.#names.of('account', account_id)
  }

  #open<T>(row: string, sealed: Uint8Array): T {
    return JSON.parse(this.#unsealer.unseal(row, sealed)) as T
  }
}
