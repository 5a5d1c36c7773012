/** Writes events and what follows from them into the tables; runs in the history's worker. */
import type { Database } from 'bun:sqlite'
import type * as wire from '../../protocol/wire'
import { cutBlocks } from './cut_blocks'
import type { NewLines } from './messages'
import { Names } from './names'
import { accountRow, blockRow } from './rows'
import type { Sealer } from './seal'
import { rowWriter } from './write_rows'

export type EventWriter = {
  /**
   * Each call of the result does a little; false when all of it is written with the watermark. Nothing is until then,
   * and nothing else may be written meanwhile.
   */
  write(accounts: readonly NewLines[], watermark: number): () => boolean
}

/** Accounts whose numbers are kept; the map is emptied beyond it. */
const ACCOUNTS_KEPT = 100_000

export function eventWriter(db: Database, key: Uint8Array, sealer: Sealer): EventWriter {
  const names = new Names(key)
  const writeRows = rowWriter(db, key, names)
  const numberOf = accountNumbers(db, names, sealer)
  const block = db.query('INSERT INTO blocks VALUES (?, ?, ?, ?, ?)')
  const seq_last_is = db.query('UPDATE accounts SET seq_last = ?2 WHERE account = ?1')
  const begin = db.query('BEGIN')
  const commit = db.query('COMMIT')
  const watermark_is = db.query("UPDATE meta SET value = ? WHERE name = 'watermark'")

  function* writeAccount({ account_id, lines }: NewLines): Generator<void> {
    const texts = lines.split('\n')
    const events = texts.map((text) => JSON.parse(text) as wire.AccountEvent)
    const account = numberOf(account_id, events[0]!.seq)
    for (const { seq_first, seq_last, unix_ms, text } of cutBlocks(texts, events)) {
      block.run(account, seq_first, seq_last, unix_ms, sealer.seal(blockRow(account_id, seq_first), text))
      yield
    }
    yield* writeRows(account, account_id, events)
    seq_last_is.run(account, events.at(-1)!.seq)
  }

  function* writeAll(accounts: readonly NewLines[], watermark: number): Generator<void> {
    begin.run()
    for (const one of accounts) yield* writeAccount(one)
    watermark_is.run(watermark)
    commit.run()
  }
  return {
    write(accounts, watermark) {
      const steps = writeAll(accounts, watermark)
      return () => steps.next().done !== true
    },
  }
}

/** The number of an account, given when its first event comes. */
function accountNumbers(db: Database, names: Names, sealer: Sealer) {
  const find = db.query<{ account: number }, [Uint8Array]>('SELECT account FROM accounts WHERE name = ?')
  const next = db.query<{ account: number }, []>(
    'SELECT ifnull(max(account), 0) + 1 AS account FROM accounts',
  )
  const insert = db.query('INSERT INTO accounts VALUES (?, ?, ?, ?, ?)')
  const known = new Map<string, number>()
  return (account_id: string, seq_first: number): number => {
    let account = known.get(account_id)
    if (account !== undefined) return account
    const name = names.account(account_id)
    account = find.get(name)?.account
    if (account === undefined) {
      account = next.get()!.account
      insert.run(account, name, seq_first, seq_first, sealer.seal(accountRow(account), account_id))
    }
    if (known.size >= ACCOUNTS_KEPT) known.clear()
    known.set(account_id, account)
    return account
  }
}
