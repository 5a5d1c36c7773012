/** Deletes rows older than the retention time, in steps small enough to interleave with writes. */

import type { Database } from 'bun:sqlite'
import { LIMITS } from '../limits'
import { ERAS, MAX_ERA } from './database'
import type { Names } from './seal'

const ROWS_PER_STEP = LIMITS.history_prune_rows_max

/** One step of pruning; false when it is finished. */
type PruneStep = () => boolean

/**
 * Prunes account by account, by the hour: closed orders with their fills, final payments, then old blocks that no row points at.
 * An account loses a prefix of its events, so seq_first describes the rest; a block kept for a row is no longer read
 * as events.
 */
export function pruneTables(db: Database, names: Names, cutoff_unix_ms: number): PruneStep {
  const cutoff = names.hour(cutoff_unix_ms)
  const accounts = db.query<{ account: number }, [number]>(
    'SELECT account FROM accounts WHERE account > ? ORDER BY account LIMIT 1',
  )
  let steps: PruneStep[] = []
  let last = 0
  return () => {
    while (steps.length > 0) {
      if (steps[0]!()) return true
      steps.shift()
    }
    const account = accounts.get(last)?.account
    if (account === undefined) return false
    last = account
    steps = pruneAccount(db, names, account, cutoff)
    return true
  }
}

function pruneAccount(db: Database, names: Names, account: number, cutoff: number): PruneStep[] {
  const old = oldEvents(db, account, cutoff)
  const after = <T>(prune: (through: number) => T) => {
    return () => (old.through === 0 ? false : prune(old.through))
  }
  const orders = pruneOrders(db, names.mark('open', account, false), account, cutoff)
  const payments = prunePayments(db, names.mark('final', account, true), account, cutoff)
  const blocks = pruneBlocks(db, account)
  return [old.look, after(orders), after(payments), after(blocks)]
}

/** Finds the last event before the first block that must be kept. */
function oldEvents(db: Database, account: number, cutoff: number) {
  const next = db.query<{ seq_last: number; hour: number }, [number, number]>(
    `SELECT seq_last, hour FROM blocks WHERE account = ? AND seq_last > ? ORDER BY seq_last LIMIT ${ROWS_PER_STEP}`,
  )
  const found = {
    through: 0,
    look(): boolean {
      const rows = next.all(account, found.through)
      const young = rows.findIndex(({ hour }) => hour >= cutoff)
      found.through = rows[young === -1 ? rows.length - 1 : young - 1]?.seq_last ?? found.through
      return young === -1 && rows.length === ROWS_PER_STEP
    },
  }
  return found
}

/**
 * Deletes a closed order once its last event and those of its fills are old, with its fills: those before the account's next
 * order of the same id.
 */
function pruneOrders(db: Database, closed: number, account: number, cutoff: number) {
  const old = db.query<{ id: Uint8Array; seq: number; next: number | null }, number[]>(
    `SELECT id, seq, iif(EXISTS (
       SELECT 1 FROM fills INDEXED BY fills_by_order WHERE fills.id = orders.id AND fills.account = orders.account
     ), (
       ${ERAS} SELECT min(later.seq) FROM eras CROSS JOIN orders AS later INDEXED BY orders_by_id USING (era)
       WHERE later.id = orders.id AND later.account = orders.account AND later.seq > orders.seq
     ), NULL) AS next FROM orders WHERE account = ?2 AND seq <= ?3 AND open = ?4 AND hour < ?5
     AND NOT EXISTS (
       SELECT 1 FROM fills INDEXED BY fills_by_order WHERE fills.id = orders.id AND fills.account = orders.account
       AND fills.seq < ifnull(next, ${Number.MAX_SAFE_INTEGER}) AND fills.hour >= ?5
     ) LIMIT ${ROWS_PER_STEP}`,
  )
  const fills = db.query(
    'DELETE FROM fills INDEXED BY fills_by_order WHERE id = ? AND account = ? AND seq < ?',
  )
  const order = db.query('DELETE FROM orders WHERE account = ? AND seq = ?')
  return db.transaction((through: number) => {
    const rows = old.all(MAX_ERA, account, through, closed, cutoff)
    for (const { id, seq, next } of rows) {
      fills.run(id, account, next ?? Number.MAX_SAFE_INTEGER)
      order.run(account, seq)
    }
    return rows.length > 0
  })
}

function prunePayments(db: Database, final: number, account: number, cutoff: number) {
  const remove = db.query(
    `DELETE FROM payments WHERE id IN (SELECT id FROM payments
     WHERE account = ? AND event <= ? AND final = ? AND hour < ? LIMIT ${ROWS_PER_STEP})`,
  )
  return (through: number) => remove.run(account, through, final, cutoff).changes > 0
}

function pruneBlocks(db: Database, account: number) {
  const next = db.query<{ rowid: number; seq_first: number; seq_last: number }, [number, number, number]>(
    `SELECT rowid, seq_first, seq_last FROM blocks WHERE account = ? AND seq_last > ? AND seq_last <= ?
     ORDER BY seq_last LIMIT ${ROWS_PER_STEP}`,
  )
  const remove = db.query('DELETE FROM blocks WHERE rowid = ?')
  const first_is = db.query('UPDATE accounts SET seq_first = ?2 + 1 WHERE account = ?1')
  let last = 0
  let wanted: readonly number[] | undefined
  return db.transaction((through: number) => {
    // A row written between two steps never points at an event this old, so one query suffices.
    wanted ??= wantedEvents(db, account, through)
    if (last === 0) first_is.run(account, through)
    const rows = next.all(account, last, through)
    for (const { rowid, seq_first, seq_last } of rows) {
      if (!holdsOne(wanted, seq_first, seq_last)) remove.run(rowid)
      last = seq_last
    }
    return rows.length === ROWS_PER_STEP
  })
}

/** Events that rows point at, ascending: of open orders, closed orders with a recent fill, and pending payments. */
function wantedEvents(db: Database, account: number, through: number): number[] {
  return db
    .query<{ event: number }, [number, number]>(
      `SELECT event FROM orders WHERE account = ?1 AND seq <= ?2 AND event <= ?2
       UNION SELECT event FROM fills WHERE account = ?1 AND seq <= ?2 AND event <= ?2
       UNION SELECT event FROM payments WHERE account = ?1 AND event <= ?2 ORDER BY event`,
    )
    .all(account, through)
    .map(({ event }) => event)
}

function holdsOne(wanted: readonly number[], seq_first: number, seq_last: number): boolean {
  let low = 0
  for (let high = wanted.length; low < high; ) {
    const middle = (low + high) >> 1
    if (wanted[middle]! < seq_first) low = middle + 1
    else high = middle
  }
  return low < wanted.length && wanted[low]! <= seq_last
}
