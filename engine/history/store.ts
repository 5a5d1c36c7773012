/** Reads the history's database on the engine's thread. Every method throws on damaged data. */

import type { Database } from 'bun:sqlite'
import type * as wire from '../../protocol/wire/trading'
import { LIMITS, READ_UNITS } from '../limits'
import { BlockReader, type Owner } from './blocks'
import type { EventText, OrderFilter, Owned } from './contract'
import { ERAS, MAX_ERA, NEWEST_ORDER, saltReader } from './database'
import { dataText } from './event_text'
import { accountRow, HiddenIds, type IdKind, Names, Unsealer } from './seal'

type OrderRow = { seq: number; event: string }
type FillRow = { seq: number; fill_index: number; text: string }
type Pointer = { account: number; event: number }
type HiddenOrder = { seq: number; id: Uint8Array; event: number }
type HiddenFill = HiddenOrder & { fill_index: number }

export class Store {
  /** See `History.units`. */
  units = 0
  private readonly db: Database
  private readonly names: Names
  private readonly ids: Record<IdKind, HiddenIds>
  private readonly unsealer: Unsealer
  private readonly blocks: BlockReader
  /** In both directions; numbers are permanent within a database. Bounded by `accounts_max`. */
  private readonly numbers = new Map<string, number>()
  private readonly account_ids = new Map<number, string>()

  constructor(db: Database, key: Uint8Array) {
    this.db = db
    this.names = new Names(key)
    this.ids = {
      order: new HiddenIds(key, 'order'),
      withdrawal: new HiddenIds(key, 'withdrawal'),
      reshape: new HiddenIds(key, 'reshape'),
    }
    this.unsealer = new Unsealer(key, saltReader(db))
    this.blocks = new BlockReader(db, this.unsealer)
  }

  /** Runs `read` in one transaction, so that it sees no concurrent writes or deletes. */
  consistently<T>(read: () => T): T {
    this.db.query('BEGIN').run()
    try {
      return read()
    } finally {
      this.db.query('COMMIT').run()
    }
  }

  account(account_id: string): { seq_first: number; seq_last: number } | undefined {
    const account = this.numberOf(account_id)
    if (account === undefined) return undefined
    const found = this.db
      .query<{ seq_first: number; seq_last: number }, [number]>(
        'SELECT seq_first, seq_last FROM accounts WHERE account = ?',
      )
      .get(account)
    return found ?? undefined
  }

  /** Events with after < seq < before. */
  events(account_id: string, after: number, before: number, limit: number): EventText[] {
    const account = this.numberOf(account_id)
    const seq_first = this.account(account_id)?.seq_first
    if (account === undefined || seq_first === undefined) return []
    const found = this.blocks.between({ account_id, account }, Math.max(after, seq_first - 1), before, limit)
    this.units += found.length * READ_UNITS.event
    return found
  }

  /** The newest event of the account's newest order of this id. */
  order(account_id: string, order_id: string): string | undefined {
    const account = this.numberOf(account_id)
    if (account === undefined) return undefined
    const row = this.newest(order_id, account, Number.MAX_SAFE_INTEGER)
    return row === null ? undefined : this.event({ account_id, account }, row.event, 'order', order_id)
  }

  isOrder(order_id: string): boolean {
    const row = this.db
      .query(
        `${ERAS} SELECT 1 FROM eras CROSS JOIN orders INDEXED BY orders_by_id USING (era) WHERE id = ?2 LIMIT 1`,
      )
      .get(MAX_ERA, this.ids.order.hide(order_id))
    return row !== null
  }

  /** seq of the first event of the account's order that had the id at seq `at`. */
  orderSeq(account_id: string, order_id: string, at: number): number | undefined {
    const account = this.numberOf(account_id)
    if (account === undefined) return undefined
    return this.newest(order_id, account, at)?.seq
  }

  private newest(order_id: string, account: number, at: number) {
    return this.db
      .query<{ seq: number; event: number }, [number, Uint8Array, number, number]>(NEWEST_ORDER)
      .get(MAX_ERA, this.ids.order.hide(order_id), account, at)
  }

  /**
   * Matching orders up to `through`, ascending by creation, lazily. `through` is the last row of a filtered scan
   * (`history_scan_rows_max` bounds it, so that a rare symbol causes no long pause); undefined when it reaches the end.
   */
  orders(
    account_id: string,
    filter: Omit<OrderFilter, 'limit'>,
  ): { through: number | undefined; rows: Iterable<OrderRow> } {
    const account = this.numberOf(account_id)
    if (account === undefined) return { through: undefined, rows: [] }
    const open = filter.status === 'open'
    const is_open = open ? ` AND open = ${this.names.mark('open', account, true)}` : ''
    const from = `FROM orders WHERE account = ? AND seq > ?${is_open}`
    const conditions: string[] = []
    const values = [account, filter.after]
    if (filter.status !== undefined && !open) {
      conditions.push(' AND status = ?')
      values.push(this.names.mark('status', account, filter.status))
    }
    if (filter.symbol !== undefined) {
      conditions.push(' AND symbol = ?')
      values.push(this.names.mark('symbol', account, filter.symbol))
    }
    const through = conditions.length === 0 ? undefined : this.scanEnd(from, account, filter.after)
    if (through !== undefined) {
      conditions.push(' AND seq <= ?')
      values.push(through)
    }
    const select = this.db.query<HiddenOrder, number[]>(
      `SELECT seq, id, event ${from}${conditions.join('')} ORDER BY seq`,
    )
    return { through, rows: this.openOrders({ account_id, account }, select.iterate(...values)) }
  }

  private scanEnd(from: string, account: number, after: number): number | undefined {
    const rows_max = LIMITS.history_scan_rows_max
    const { rows, seq } = this.db
      .query<{ rows: number; seq: number }, [number, number, number]>(
        `SELECT count(*) AS rows, max(seq) AS seq FROM (SELECT seq ${from} ORDER BY seq LIMIT ?)`,
      )
      .get(account, after, rows_max + 1)!
    this.units += rows * READ_UNITS.passed
    return rows > rows_max ? seq : undefined
  }

  private *openOrders(owner: Owner, rows: Iterable<HiddenOrder>): Generator<OrderRow> {
    for (const { seq, id, event } of rows) {
      const order_id = this.ids.order.reveal(id)
      this.units += READ_UNITS.order
      yield { seq, event: this.event(owner, event, 'order', order_id) }
    }
  }

  /** Fills of the account's orders of this id, ascending by creation. */
  fillsOf(account_id: string, order_id: string): FillRow[] {
    const account = this.numberOf(account_id)
    if (account === undefined) return []
    return this.db
      .query<HiddenFill, [Uint8Array, number]>(
        `SELECT seq, id, fill_index, event FROM fills INDEXED BY fills_by_order
         WHERE id = ? AND account = ? ORDER BY seq`,
      )
      .all(this.ids.order.hide(order_id), account)
      .map((row) => this.openFill({ account_id, account }, row))
  }

  fillSeq(account_id: string, { order_id, fill_index, slot }: wire.Fill): number | undefined {
    const account = this.numberOf(account_id)
    if (account === undefined) return undefined
    return this.db
      .query<{ seq: number }, [Uint8Array, number, number, number]>(
        'SELECT seq FROM fills WHERE id = ? AND account = ? AND fill_index = ? AND slot = ?',
      )
      .get(this.ids.order.hide(order_id), account, fill_index, this.names.mark('slot', account, slot))?.seq
  }

  /** Fills of the account ascending by creation, with the seq of their first event. */
  fills(account_id: string, after: number, limit: number): FillRow[] {
    const account = this.numberOf(account_id)
    if (account === undefined) return []
    return this.db
      .query<HiddenFill, [number, number, number]>(
        'SELECT seq, id, fill_index, event FROM fills WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?',
      )
      .all(account, after, limit)
      .map((row) => this.openFill({ account_id, account }, row))
  }

  private openFill(owner: Owner, { seq, id, fill_index, event }: HiddenFill): FillRow {
    this.units += READ_UNITS.fill
    const order_id = this.ids.order.reveal(id)
    const text = this.resource(owner, event, 'fill', order_id)
    if (!text.includes(`"fill_index":${fill_index},`)) throw new Error('a row points at another fill')
    return { seq, fill_index, text }
  }

  payment(kind: 'withdrawal' | 'reshape', payment_id: string): Owned | undefined {
    const row = this.db
      .query<Pointer, [Uint8Array]>('SELECT account, event FROM payments WHERE id = ?')
      .get(this.ids[kind].hide(payment_id))
    return row === null ? undefined : this.owned(row, kind, payment_id)
  }

  close(): void {
    this.db.close()
  }

  private owned({ account, event }: Pointer, subject: IdKind, id: string): Owned {
    const account_id = this.accountId(account)
    return { account_id, text: this.resource({ account_id, account }, event, subject, id) }
  }

  private resource(owner: Owner, event: number, subject: IdKind | 'fill', id: string): string {
    return dataText(this.event(owner, event, subject, id))
  }

  /** The event a row points at. Verifies the resource, because row pointers are not authenticated. */
  private event(owner: Owner, event: number, subject: IdKind | 'fill', id: string): string {
    const text = this.blocks.at(owner, event)
    const field = `${subject === 'fill' ? 'order' : subject}_id`
    if (!text.includes(`"kind":"${subject}.`) || !text.includes(`"${field}":"${id}"`)) {
      throw new Error('a row points at the event of another')
    }
    return text
  }

  private numberOf(account_id: string): number | undefined {
    let account = this.numbers.get(account_id)
    if (account === undefined) {
      account = this.db
        .query<{ account: number }, [Uint8Array]>('SELECT account FROM accounts WHERE name = ?')
        .get(this.names.account(account_id))?.account
      if (account !== undefined) this.numbers.set(account_id, account)
    }
    return account
  }

  private accountId(account: number): string {
    let account_id = this.account_ids.get(account)
    if (account_id === undefined) {
      const row = this.db
        .query<{ sealed: Uint8Array }, [number]>('SELECT sealed FROM accounts WHERE account = ?')
        .get(account)
      if (row === null) throw new Error('a row of an account that is not there')
      account_id = this.unsealer.unseal(accountRow(account), row.sealed)
      this.account_ids.set(account, account_id)
    }
    return account_id
  }
}
