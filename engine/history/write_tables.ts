/** Writes events into the tables and points the rows of orders, fills and payments at their newest events. */

import type { Database } from 'bun:sqlite'
import type { ChainPoint } from '../../protocol/units'
import type * as wire from '../../protocol/wire/trading'
import { LIMITS } from '../limits'
import { LruTexts } from '../memory/texts'
import { cutBlocks } from './blocks'
import type { NewTexts } from './contract'
import {
  accountRow,
  blockRow,
  HiddenIds,
  isFinalPayment,
  isOpen,
  type Names,
  type Sealer,
  sealPoint,
} from './seal'

/** First seq and newest event of one order, fill or payment within a batch, and whether the batch holds its first event. */
type Latest = { seq: number; begins: boolean; event: wire.AccountEvent }
type RowWriter = (account: number, events: readonly wire.AccountEvent[]) => Generator<void>

/**
 * Points each row at its newest event, one row per step; a row keeps the seq of its first event. Events of an order whose first
 * one is not in the batch (`?9`) belong to the account's newest order of that id.
 */
function rowWriter(db: Database, key: Uint8Array, names: Names): RowWriter {
  const order = db.query(
    `INSERT INTO orders VALUES (
       ?1, iif(?9, ?2, ifnull((SELECT max(seq) FROM orders WHERE id = ?3 AND account = ?1), ?2)), ?3, ?4, ?5, ?6, ?7, ?8
     ) ON CONFLICT (account, seq) DO UPDATE SET event = ?4, open = ?5, status = ?6, hour = ?8`,
  )
  const fill = db.query(
    `INSERT INTO fills VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
     ON CONFLICT (id, account, fill_index, slot) DO UPDATE SET event = ?6, hour = ?7`,
  )
  const payment = db.query(
    `INSERT INTO payments VALUES (?1, ?2, ?3, ?4, ?5)
     ON CONFLICT (id) DO UPDATE SET account = ?2, event = ?3, final = ?4, hour = ?5`,
  )
  const order_ids = new HiddenIds(key, 'order')
  const payment_ids = {
    withdrawal: new HiddenIds(key, 'withdrawal'),
    reshape: new HiddenIds(key, 'reshape'),
  }

  /** Most orders of a batch have the marks of the one before. */
  function* writeOrders(account: number, orders: readonly Latest[]): Generator<void> {
    const ids = order_ids.hideAll(orders.map(({ event }) => (event.data as wire.Order).order_id))
    let last: Pick<wire.Order, 'status' | 'symbol'> | undefined
    let [open, status, symbol, at] = [0, 0, 0, 0]
    for (const { seq, begins, event } of orders) {
      const data = event.data as wire.Order
      if (last?.status !== data.status || last.symbol !== data.symbol) {
        open = names.mark('open', account, isOpen(data.status))
        status = names.mark('status', account, data.status)
        symbol = names.mark('symbol', account, data.symbol)
        last = data
      }
      const hour = names.hour(event.unix_ms)
      order.run(account, seq, ids[at++]!, event.seq, open, status, symbol, hour, begins)
      yield
    }
  }
  const writeFill = (account: number, { seq, event }: Latest) => {
    const data = event.data as wire.Fill
    const id = order_ids.hide(data.order_id)
    const slot = names.mark('slot', account, data.slot)
    fill.run(account, seq, id, data.fill_index, slot, event.seq, names.hour(event.unix_ms))
  }
  const writePayment = (account: number, { event }: Latest) => {
    const data = event.data as wire.Withdrawal | wire.Reshape
    const id =
      'withdrawal_id' in data
        ? payment_ids.withdrawal.hide(data.withdrawal_id)
        : payment_ids.reshape.hide(data.reshape_id)
    const final = names.mark('final', account, isFinalPayment(data))
    payment.run(id, account, event.seq, final, names.hour(event.unix_ms))
  }

  return function* (account, events) {
    const { orders, fills, payments } = latestOf(events)
    yield* writeOrders(account, orders)
    for (const one of fills) yield writeFill(account, one)
    for (const one of payments) yield writePayment(account, one)
  }
}

/** Each row is written once per batch, however many events of the batch belong to it. */
function latestOf(events: readonly wire.AccountEvent[]) {
  const rows = { orders: [] as Latest[], fills: [] as Latest[], payments: [] as Latest[] }
  const newest = new Map<string, Latest>()
  const keep = (kind: keyof typeof rows, name: string, event: wire.AccountEvent) => {
    const known = newest.get(name)
    const begins = event.kind === 'order.accepted'
    if (known !== undefined && !begins) {
      known.event = event
      return
    }
    const latest = { seq: event.seq, begins, event }
    newest.set(name, latest)
    rows[kind].push(latest)
  }
  for (const event of events) {
    const { data } = event
    if ('fill_index' in data) keep('fills', `${data.order_id}/${data.fill_index}/${data.slot}`, event)
    else if ('trading_key' in data && 'order_id' in data) keep('orders', data.order_id, event)
    else if ('withdrawal_id' in data) keep('payments', `withdrawal/${data.withdrawal_id}`, event)
    else if ('reshape_id' in data) keep('payments', `reshape/${data.reshape_id}`, event)
  }
  return rows
}

export type EventWriter = {
  /**
   * Returns a step function: each call writes a little and returns false once all is committed with the point, in one
   * transaction. The connection must not be used between the first and the last step.
   */
  write(accounts: readonly NewTexts[], point: ChainPoint): () => boolean
  /** Ends the transaction of a write that threw. */
  abandon(): void
}

export function eventWriter(db: Database, key: Uint8Array, names: Names, sealer: Sealer): EventWriter {
  const writeRows = rowWriter(db, key, names)
  const { numberOf, forget } = accountNumbers(db, names, sealer)
  const block = db.query('INSERT INTO blocks VALUES (?, ?, ?, ?, ?)')
  const seq_last_is = db.query('UPDATE accounts SET seq_last = ?2 WHERE account = ?1')
  const begin = db.query('BEGIN')
  const commit = db.query('COMMIT')
  const point_is = db.query("UPDATE meta SET value = ? WHERE name = 'point'")

  function* writeAccount({ account_id, texts }: NewTexts): Generator<void> {
    const events = texts.map((text) => JSON.parse(text) as wire.AccountEvent)
    const account = numberOf(account_id, events[0]!.seq)
    for (const { seq_first, seq_last, unix_ms, text } of cutBlocks(texts, events)) {
      const sealed = sealer.seal(blockRow(account_id, seq_first), text)
      block.run(account, seq_first, seq_last, names.hour(unix_ms), sealed)
      yield
    }
    yield* writeRows(account, events)
    seq_last_is.run(account, events.at(-1)!.seq)
  }

  function* writeAll(accounts: readonly NewTexts[], point: ChainPoint): Generator<void> {
    begin.run()
    for (const one of accounts) yield* writeAccount(one)
    point_is.run(sealPoint(sealer, point))
    commit.run()
  }
  return {
    write(accounts, point) {
      const steps = writeAll(accounts, point)
      return () => steps.next().done !== true
    },
    abandon() {
      // SQLite ended it already after some errors.
      if (db.inTransaction) db.run('ROLLBACK')
      // Accounts that were inserted in it.
      forget()
    },
  }
}

/** Returns the number of an account; its row is written at its first event. */
function accountNumbers(db: Database, names: Names, sealer: Sealer) {
  const insert = db.query('INSERT INTO accounts VALUES (?, ?, ?, ?, ?) ON CONFLICT (account) DO NOTHING')
  const known = new LruTexts<number>(LIMITS.history_accounts_max)
  const numberOf = (account_id: string, seq_first: number): number => {
    let account = known.get(account_id)
    if (account !== undefined) return account
    account = names.number(account_id)
    const sealed = sealer.seal(accountRow(account), account_id)
    insert.run(account, names.account(account_id), seq_first, seq_first, sealed)
    known.set(account_id, account, 1)
    return account
  }
  return { numberOf, forget: () => known.clear() }
}
