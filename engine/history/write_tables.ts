/** Writes events into the tables and points the rows of orders, fills and payments at their newest events. */

import type { Database } from 'bun:sqlite'
import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import { LruTexts } from '../memory/texts'
import { cutBlocks } from './blocks'
import type { LoggedEvents } from './contract'
import { ERAS, MAX_ERA, NEWEST_ORDER } from './database'
import { LoggedBatch, ROW } from './event_log'
import { accountRow, blockRow, HiddenIds, isOpen, type Names, type Sealer, sealPoint } from './seal'

/** First and newest event of each order, fill or payment of a batch. */
type Rows = { first: number[]; newest: number[] }
type RowWriter = (batch: LoggedBatch, account: number, events: readonly number[]) => Generator<void>

/**
 * Points each row at its newest event, one row per step; a row keeps the seq of its first event. Events of an order whose first
 * one is not in the batch belong to the account's newest order of that id.
 */
function rowWriter(db: Database, key: Uint8Array, names: Names, eraOf: Eras['of']): RowWriter {
  const order = db.query(
    `INSERT INTO orders VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
     ON CONFLICT (account, seq) DO UPDATE SET event = ?4, open = ?5, status = ?6, hour = ?8`,
  )
  const newest = db.query<{ seq: number }, [number, Uint8Array, number, number]>(NEWEST_ORDER)
  const fill = db.query(
    `INSERT INTO fills VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
     ON CONFLICT (id, account, fill_index, slot) DO UPDATE SET event = ?6, hour = ?7`,
  )
  const payment = db.query(
    `INSERT INTO payments VALUES (?1, ?2, ?3, ?4, ?5)
     ON CONFLICT (id) DO UPDATE SET account = ?2, event = ?3, final = ?4, hour = ?5`,
  )
  const order_ids = new HiddenIds(key, 'order')
  const withdrawal_ids = new HiddenIds(key, 'withdrawal')
  const reshape_ids = new HiddenIds(key, 'reshape')

  function* writeOrders(batch: LoggedBatch, account: number, rows: Rows): Generator<void> {
    const ids = order_ids.hideAll(batch.ids(rows.first))
    const marksOf = orderMarks(names, batch, account)
    for (const [at, event] of rows.newest.entries()) {
      const first = rows.first[at]!
      const { open, status, symbol } = marksOf(event)
      const id = ids[at]!
      const slot = names.slot(batch.slot(first))
      const seen = batch.seq(first)
      const seq = batch.flag(first) ? undefined : newest.get(slot, id, account, seen)?.seq
      const era = seq === undefined ? eraOf(slot) : 0
      const hour = names.hour(batch.unixMs(event))
      order.run(account, seq ?? seen, id, batch.seq(event), open, status, symbol, hour, era)
      yield
    }
  }
  function* writeFills(batch: LoggedBatch, account: number, rows: Rows): Generator<void> {
    const ids = order_ids.hideAll(batch.ids(rows.first))
    for (const [at, event] of rows.newest.entries()) {
      const slot = names.mark('slot', account, batch.slot(event))
      const hour = names.hour(batch.unixMs(event))
      const seq = batch.seq(rows.first[at]!)
      fill.run(account, seq, ids[at]!, batch.fillIndex(event), slot, batch.seq(event), hour)
      yield
    }
  }
  function* writePayments(
    hidden: HiddenIds,
    batch: LoggedBatch,
    account: number,
    rows: Rows,
  ): Generator<void> {
    const ids = hidden.hideAll(batch.ids(rows.first))
    for (const [at, event] of rows.newest.entries()) {
      const final = names.mark('final', account, batch.flag(event))
      payment.run(ids[at]!, account, batch.seq(event), final, names.hour(batch.unixMs(event)))
      yield
    }
  }

  return function* (batch, account, events) {
    const rows = rowsOf(batch, events)
    yield* writeOrders(batch, account, rows[ROW.order])
    yield* writeFills(batch, account, rows[ROW.fill])
    yield* writePayments(withdrawal_ids, batch, account, rows[ROW.withdrawal])
    yield* writePayments(reshape_ids, batch, account, rows[ROW.reshape])
  }
}

type Eras = {
  /** The era of a new order: the newest one up to its slot, or 0. An account that is written later may have older orders. */
  of(slot: number): number
  /** Forgets those that began in a write which was abandoned. */
  forget(): void
}

/** An era takes `era_orders`, and more where there are many eras, because a query looks into each. */
function eras(db: Database, era_orders: number): Eras {
  const known = db.query<{ era: number }, [number]>(`${ERAS} SELECT era FROM eras WHERE era IS NOT NULL`)
  const count = db.query<{ orders: number }, [number]>(
    'SELECT count(*) AS orders FROM orders INDEXED BY orders_by_id WHERE era = ?',
  )
  let newest_first: number[] = []
  /** Orders that the newest era still takes; undefined before the eras are read. */
  let left: number | undefined
  const look = () => {
    newest_first = known.all(MAX_ERA).map(({ era }) => era)
    return era_orders * 2 ** Math.floor(newest_first.length / LIMITS.history_eras_per_doubling)
  }
  return {
    of(slot) {
      if (left === undefined) {
        const room = look()
        left = newest_first.length === 0 ? 0 : room - count.get(newest_first[0]!)!.orders
      }
      if (left <= 0 && slot > (newest_first[0] ?? 0)) {
        left = look()
        newest_first.unshift(slot)
      }
      const era = newest_first.find((one) => one <= slot) ?? 0
      if (era === newest_first[0]) left--
      return era
    },
    forget() {
      left = undefined
    },
  }
}

/** Most orders of a batch have the marks of another. */
function orderMarks(names: Names, batch: LoggedBatch, account: number) {
  const known = new Map<number, Record<'open' | 'status' | 'symbol', number>>()
  return (event: number) => {
    const terms = batch.terms(event)
    let marks = known.get(terms)
    if (marks === undefined) {
      const [status, symbol] = [batch.status(event), batch.symbol(event)]
      marks = {
        open: names.mark('open', account, isOpen(status)),
        status: names.mark('status', account, status),
        symbol: names.mark('symbol', account, symbol),
      }
      known.set(terms, marks)
    }
    return marks
  }
}

/** Each row is written once per batch, however many events of the batch belong to it. */
function rowsOf(batch: LoggedBatch, events: readonly number[]) {
  const none = (): Rows => ({ first: [], newest: [] })
  const rows = [none(), none(), none(), none(), none()] as const
  const known = new Map<string, number>()
  for (const event of events) {
    const row = batch.row(event)
    if (row === ROW.none) continue
    const { first, newest } = rows[row]
    const name = batch.name(event)
    const at = known.get(name)
    // Another order may have the id of one that is closed.
    if (at === undefined || (row === ROW.order && batch.flag(event))) {
      known.set(name, first.length)
      first.push(event)
      newest.push(event)
    } else newest[at] = event
  }
  return rows
}

export type EventWriter = {
  /**
   * Returns a step function: each call writes a little and returns false once all is committed with the point, in one
   * transaction. The connection must not be used between the first and the last step.
   */
  write(events: LoggedEvents, point: ChainPoint): () => boolean
  /** Ends the transaction of a write that threw. */
  abandon(): void
}

export function eventWriter(
  db: Database,
  key: Uint8Array,
  names: Names,
  sealer: Sealer,
  era_orders: number = LIMITS.history_era_orders,
): EventWriter {
  const order_eras = eras(db, era_orders)
  const writeRows = rowWriter(db, key, names, order_eras.of)
  const { numberOf, forget } = accountNumbers(db, names, sealer)
  const block = db.query('INSERT INTO blocks VALUES (?, ?, ?, ?, ?)')
  const seq_last_is = db.query('UPDATE accounts SET seq_last = ?2 WHERE account = ?1')
  const begin = db.query('BEGIN')
  const commit = db.query('COMMIT')
  const point_is = db.query("UPDATE meta SET value = ? WHERE name = 'point'")

  function* writeAccount(batch: LoggedBatch, account_id: string, events: readonly number[]): Generator<void> {
    const account = numberOf(account_id, batch.seq(events[0]!))
    for (const { seq_first, seq_last, unix_ms, text } of cutBlocks(batch, events)) {
      const sealed = sealer.seal(blockRow(account_id, seq_first), text)
      block.run(account, seq_first, seq_last, names.hour(unix_ms), sealed)
      yield
    }
    yield* writeRows(batch, account, events)
    seq_last_is.run(account, batch.seq(events.at(-1)!))
  }

  function* writeAll(batch: LoggedBatch, point: ChainPoint): Generator<void> {
    begin.run()
    for (const { account_id, events } of batch.accounts()) yield* writeAccount(batch, account_id, events)
    point_is.run(sealPoint(sealer, point))
    commit.run()
  }
  return {
    write(events, point) {
      const steps = writeAll(new LoggedBatch(events), point)
      return () => steps.next().done !== true
    },
    abandon() {
      // SQLite ended it already after some errors.
      if (db.inTransaction) db.run('ROLLBACK')
      // Accounts that were inserted in it.
      forget()
      order_eras.forget()
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
