/** Deletes what is older than the retention time, in pieces small enough to let writes in between. */
import type { Database } from 'bun:sqlite'

const ROWS_PER_STEP = 500

/** One step of pruning; false when nothing older than the cutoff is left. */
export type PruneStep = () => boolean

export function pruneTables(db: Database, cutoff_unix_ms: number): PruneStep {
  const steps = [
    pruneEvents(db, cutoff_unix_ms),
    pruneOrders(db, cutoff_unix_ms),
    prunePayments(db, cutoff_unix_ms),
  ]
  return () => {
    while (steps.length > 0) {
      if (steps[0]?.()) return true
      steps.shift()
    }
    return false
  }
}

/** An account loses a prefix of its events, never one from the middle, so that seq_first says it all. */
function pruneEvents(db: Database, cutoff: number): PruneStep {
  type Account = { account: Uint8Array }
  const accounts = db.query<Account, [Uint8Array]>(
    `SELECT account FROM accounts WHERE account > ? ORDER BY account LIMIT ${ROWS_PER_STEP}`,
  )
  const oldest = db.query<{ seq: number; unix_ms: number }, [Uint8Array]>(
    `SELECT seq, unix_ms FROM events WHERE account = ? ORDER BY seq LIMIT ${ROWS_PER_STEP}`,
  )
  const remove = db.query('DELETE FROM events WHERE account = ? AND seq <= ?')
  const first_is = db.query('UPDATE accounts SET seq_first = ?2 + 1 WHERE account = ?1')
  let waiting: Uint8Array[] = []
  let last: Uint8Array = new Uint8Array(0)

  const pruneAccount = db.transaction((account: Uint8Array): boolean => {
    const rows = oldest.all(account)
    const kept = rows.findIndex(({ unix_ms }) => unix_ms >= cutoff)
    const through = rows[kept === -1 ? rows.length - 1 : kept - 1]?.seq
    if (through === undefined) return false
    remove.run(account, through)
    first_is.run(account, through)
    return kept === -1
  })

  return () => {
    if (waiting.length === 0) waiting = accounts.all(last).map(({ account }) => account)
    const account = waiting[0]
    if (account === undefined) return false
    if (pruneAccount(account)) return true
    last = account
    waiting.shift()
    return true
  }
}

/** A final order goes when its last event and those of its fills are old; then its fills go with it. */
function pruneOrders(db: Database, cutoff: number): PruneStep {
  const old = db.query<{ id: Uint8Array }, [number, number]>(
    `SELECT id FROM orders WHERE open = 0 AND unix_ms < ?
     AND NOT EXISTS (SELECT 1 FROM fills WHERE fills.id = orders.id AND fills.unix_ms >= ?) LIMIT ${ROWS_PER_STEP}`,
  )
  const fills = db.query('DELETE FROM fills WHERE id = ?')
  const order = db.query('DELETE FROM orders WHERE id = ?')
  return db.transaction(() => {
    const rows = old.all(cutoff, cutoff)
    for (const { id } of rows) {
      fills.run(id)
      order.run(id)
    }
    return rows.length > 0
  })
}

function prunePayments(db: Database, cutoff: number): PruneStep {
  const remove = db.query(
    `DELETE FROM payments WHERE rowid IN
     (SELECT rowid FROM payments WHERE final = 1 AND unix_ms < ? LIMIT ${ROWS_PER_STEP})`,
  )
  return () => remove.run(cutoff).changes > 0
}
