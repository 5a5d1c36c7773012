/** Stores the chain in one SQLite file; a block is committed as a whole before it becomes readable. */

import { Database } from 'bun:sqlite'
import { randomBytes } from 'node:crypto'
import { readU64Le } from '../../protocol/bytes'
import type { BankAccount } from './bank'

export type Landed = {
  signature: string
  slot: number
  bytes: Uint8Array
  /** JSON of the TransactionError, `null` for success. */
  error: string
  /** JSON of `meta` as getTransaction returns it. */
  meta: string
  unix_s: number
  /** Every address in the transaction. */
  mentions: string[]
}
export type Block = { slot: number; height: number; blockhash: string; unix_s: number }
type StoredTransaction = {
  slot: number
  bytes: Uint8Array
  error: string
  meta: string
  unix_s: number
}
type HistoryRow = { id: number; signature: string; slot: number; error: string; unix_s: number }

const SCHEMA = `
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS accounts (
  address TEXT PRIMARY KEY, lamports TEXT NOT NULL, data BLOB NOT NULL, owner TEXT NOT NULL, executable INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS blocks (
  slot INTEGER PRIMARY KEY, height INTEGER NOT NULL, blockhash TEXT NOT NULL, unix_s INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS transactions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, signature TEXT NOT NULL UNIQUE, slot INTEGER NOT NULL, bytes BLOB NOT NULL,
  error TEXT NOT NULL, meta TEXT NOT NULL, unix_s INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS transactions_slot ON transactions (slot);
CREATE TABLE IF NOT EXISTS mentions (address TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (address, id)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS mentions_id ON mentions (id);
`
/** Blocks kept for blockhashes and block times; a blockhash is valid for 150. */
const BLOCKS_KEPT = 512

export class Store {
  readonly #db: Database

  constructor(path: string) {
    this.#db = new Database(path, { create: true, strict: true })
    // FULL: a commit is on disk before the block becomes visible. EXCLUSIVE: a second process on the same data fails.
    this.#db.run('PRAGMA locking_mode = EXCLUSIVE')
    this.#db.run('PRAGMA journal_mode = WAL')
    this.#db.run('PRAGMA synchronous = FULL')
    this.#db.run(SCHEMA)
  }

  fact(name: string): Uint8Array | undefined {
    return this.#db.query<{ value: Uint8Array }, [string]>('SELECT value FROM facts WHERE name = ?').get(name)
      ?.value
  }
  setFact(name: string, value: Uint8Array): void {
    this.#db.query('INSERT OR REPLACE INTO facts VALUES (?, ?)').run(name, value)
  }

  blocks(): Block[] {
    return this.#db.query<Block, []>('SELECT * FROM blocks ORDER BY slot').all()
  }

  accounts(): [string, BankAccount][] {
    type Row = { address: string; lamports: string; data: Uint8Array; owner: string; executable: number }
    const rows = this.#db.query<Row, []>('SELECT * FROM accounts ORDER BY executable, address').all()
    return rows.map((row) => [
      row.address,
      { lamports: BigInt(row.lamports), data: row.data, owner: row.owner, executable: row.executable === 1 },
    ])
  }

  /** Writes a block, its transactions and the accounts it changed in one durable step. */
  commit(block: Block, landed: Landed[], accounts: Iterable<[string, BankAccount | undefined]>): void {
    this.#db.transaction(() => {
      this.#db
        .query('INSERT INTO blocks VALUES (?, ?, ?, ?)')
        .run(block.slot, block.height, block.blockhash, block.unix_s)
      this.#db.query('DELETE FROM blocks WHERE slot <= ?').run(block.slot - BLOCKS_KEPT)
      for (const transaction of landed) this.#insert(transaction)
      for (const [address, account] of accounts) this.#putAccount(address, account)
    })()
  }

  /** Erases every transaction above `slot`, replaces blockhashes and restores accounts in one durable step. */
  abandon(
    slot: number,
    forks: Uint8Array,
    blocks: Block[],
    accounts: Iterable<[string, BankAccount | undefined]>,
  ): void {
    this.#db.transaction(() => {
      this.setFact('forks', forks)
      this.#db
        .query('DELETE FROM mentions WHERE id IN (SELECT id FROM transactions WHERE slot > ?)')
        .run(slot)
      this.#db.query('DELETE FROM transactions WHERE slot > ?').run(slot)
      for (const block of blocks) {
        this.#db.query('UPDATE blocks SET blockhash = ? WHERE slot = ?').run(block.blockhash, block.slot)
      }
      for (const [address, account] of accounts) this.#putAccount(address, account)
    })()
  }

  /** Writes accounts outside any transaction: genesis only. */
  install(accounts: Iterable<[string, BankAccount]>): void {
    this.#db.transaction(() => {
      for (const [address, account] of accounts) this.#putAccount(address, account)
    })()
  }

  transaction(signature: string): StoredTransaction | undefined {
    const sql = 'SELECT slot, bytes, error, meta, unix_s FROM transactions WHERE signature = ?'
    return this.#db.query<StoredTransaction, [string]>(sql).get(signature) ?? undefined
  }

  /** Newest first, strictly between the ids of `before` and `until` if given. */
  history(
    address: string,
    slot_max: number,
    before: string | undefined,
    until: string | undefined,
    limit: number,
  ): HistoryRow[] {
    const sql = `SELECT t.id, t.signature, t.slot, t.error, t.unix_s FROM mentions m JOIN transactions t ON t.id = m.id
      WHERE m.address = ? AND t.slot <= ? AND m.id < ? AND m.id > ? ORDER BY m.id DESC LIMIT ?`
    const below = before === undefined ? Number.MAX_SAFE_INTEGER : (this.#idOf(before) ?? 0)
    const above = until === undefined ? 0 : (this.#idOf(until) ?? 0)
    return this.#db
      .query<HistoryRow, [string, number, number, number, number]>(sql)
      .all(address, slot_max, below, above, limit)
  }

  close(): void {
    this.#db.close()
  }

  #idOf(signature: string): number | undefined {
    return this.#db
      .query<{ id: number }, [string]>('SELECT id FROM transactions WHERE signature = ?')
      .get(signature)?.id
  }

  #insert(transaction: Landed): void {
    const sql =
      'INSERT INTO transactions (signature, slot, bytes, error, meta, unix_s) VALUES (?, ?, ?, ?, ?, ?)'
    const { signature, slot, bytes, error, meta, unix_s } = transaction
    const { lastInsertRowid } = this.#db.query(sql).run(signature, slot, bytes, error, meta, unix_s)
    for (const address of transaction.mentions) {
      this.#db.query('INSERT OR IGNORE INTO mentions VALUES (?, ?)').run(address, lastInsertRowid)
    }
  }

  #putAccount(address: string, account: BankAccount | undefined): void {
    if (!account) {
      this.#db.query('DELETE FROM accounts WHERE address = ?').run(address)
      return
    }
    this.#db
      .query('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?)')
      .run(address, account.lamports.toString(), account.data, account.owner, account.executable ? 1 : 0)
  }
}

/** Reads the chain's constants. A new file gets a random genesis hash, so no two embedded chains share signatures. */
export function readFacts(store: Store): { genesis_hash: Uint8Array; forks: number } {
  let genesis_hash = store.fact('genesis_hash')
  if (!genesis_hash) {
    genesis_hash = new Uint8Array(randomBytes(32))
    store.setFact('genesis_hash', genesis_hash)
  }
  const forks = store.fact('forks')
  return { genesis_hash: new Uint8Array(genesis_hash), forks: forks ? Number(readU64Le(forks, 0)) : 0 }
}
