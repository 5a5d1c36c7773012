/** Opens the history's database file, creates its tables and discards a broken one. */

import { Database } from 'bun:sqlite'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import { Sealer, sealPoint, Unsealer, unsealPoint } from './seal'

export const FILE_NAME = 'history.sqlite'
/** Marks a database that became unreadable in use; the next opening replaces it. */
const BROKEN_NAME = 'history.broken'
const VERSION = 6
const CHECK_ROW = 'meta/check'

/**
 * An account's events are stored in sealed blocks; orders, fills and payments are rows that point at their newest
 * event. `seq` is the seq of a row's first event, `event` of its
 * newest; `name`, `account`, `id`, `open`, `status`, `symbol`, `slot`, `final` and `hour` are hidden (`seal.ts`). An order is identified by
 * account and `seq`, a fill by its order's id, its index and its slot: an id may be used again once its order is closed. Rows are clustered by account and seq, so that a
 * write touches few pages. Only the ids are scattered, so their index begins with the `era`: the slot in which the first order of a group
 * of them arrived. A write touches the pages of the newest era, and a query by an id looks into each, or into those up to the order's slot. A query by an id names its index: SQLite would
 * rather scan the account's rows.
 */
const TABLES = `
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE salts (id INTEGER PRIMARY KEY, salt BLOB NOT NULL);
CREATE TABLE accounts (
  account INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, seq_first INTEGER NOT NULL, seq_last INTEGER NOT NULL,
  sealed BLOB NOT NULL
);
CREATE TABLE blocks (
  account INTEGER NOT NULL, seq_first INTEGER NOT NULL, seq_last INTEGER NOT NULL, hour INTEGER NOT NULL,
  sealed BLOB NOT NULL
);
CREATE UNIQUE INDEX blocks_by_account ON blocks (account, seq_last, seq_first);
CREATE TABLE orders (
  account INTEGER NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL, event INTEGER NOT NULL,
  open INTEGER NOT NULL, status INTEGER NOT NULL, symbol INTEGER NOT NULL, hour INTEGER NOT NULL,
  era INTEGER NOT NULL, PRIMARY KEY (account, seq)
) WITHOUT ROWID;
CREATE INDEX orders_by_id ON orders (era, id, account, seq);
CREATE INDEX orders_open ON orders (account, open, seq);
CREATE TABLE fills (
  account INTEGER NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL, fill_index INTEGER NOT NULL,
  slot INTEGER NOT NULL, event INTEGER NOT NULL, hour INTEGER NOT NULL, PRIMARY KEY (account, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX fills_by_order ON fills (id, account, fill_index, slot);
CREATE TABLE payments (
  id BLOB PRIMARY KEY, account INTEGER NOT NULL, event INTEGER NOT NULL, final INTEGER NOT NULL, hour INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX payments_by_account ON payments (account, event);
`

export const MAX_ERA = Number.MAX_SAFE_INTEGER
/** The eras that have orders, from `?1` on, newest first. */
export const ERAS = `WITH RECURSIVE eras(era) AS (
  SELECT max(era) FROM orders WHERE era <= ?1
  UNION ALL SELECT (SELECT max(era) FROM orders WHERE orders.era < eras.era) FROM eras WHERE era IS NOT NULL ORDER BY 1 DESC
)`
/** The newest order of the id `?2` and the account `?3` up to seq `?4`. */
export const NEWEST_ORDER = `${ERAS} SELECT orders.seq, event FROM eras CROSS JOIN orders ON account = ?3 AND seq = (
  SELECT max(own.seq) FROM orders AS own INDEXED BY orders_by_id
  WHERE own.era = eras.era AND own.id = ?2 AND own.account = ?3 AND own.seq <= ?4
) LIMIT 1`

/** `point` is that of the journal which the rows belong to. */
type WritableDatabase = { db: Database; sealer: Sealer; point: ChainPoint }

/** Opens the database; creates an empty one if it is missing or unusable. */
export function openWritable(dir: string, key: Uint8Array): WritableDatabase {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  if (existsSync(join(dir, BROKEN_NAME))) discard(dir)
  try {
    return openFile(dir, key)
  } catch (error) {
    if (isBusy(error) || isDiskError(error)) throw error
    discard(dir)
    return openFile(dir, key)
  }
}

/** No space, an I/O error or a read-only volume: the stored rows are intact. */
export function isDiskError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_(FULL|IOERR|READONLY)/.test(String(error.code))
}

/** Another connection holds a lock: the database itself may be intact. */
function isBusy(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_(BUSY|LOCKED)/.test(String(error.code))
}

function openFile(dir: string, key: Uint8Array): WritableDatabase {
  const db = new Database(join(dir, FILE_NAME), { create: true, strict: true })
  try {
    // A connection that another thread has just closed may still be checkpointing.
    db.run(`PRAGMA busy_timeout = ${LIMITS.history_open_wait_ms}`)
    // No sync at commits and no checkpoint of SQLite's own: `gentle_sync.ts` makes both.
    db.run('PRAGMA journal_mode = WAL')
    db.run('PRAGMA synchronous = NORMAL')
    db.run('PRAGMA wal_autocheckpoint = 0')
    // A negative size counts KiB.
    db.run(`PRAGMA cache_size = -${LIMITS.history_cache_kib}`)
    const version = db.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version
    if (version === 0) create(db, key)
    else if (version !== VERSION) throw new Error('made by another version')
    checkKey(db, key)
    return { db, sealer: newSealer(db, key), point: readPoint(db, key) }
  } catch (error) {
    db.close()
    throw error
  }
}

function create(db: Database, key: Uint8Array): void {
  db.transaction(() => {
    db.run(TABLES)
    const sealer = newSealer(db, key)
    const start = sealPoint(sealer, { seq: 0, head: new Uint8Array(32) })
    db.run("INSERT INTO meta VALUES ('check', ?), ('point', ?)", [sealer.seal(CHECK_ROW, 'tacit'), start])
    db.run(`PRAGMA user_version = ${VERSION}`)
  })()
}

/** @throws Error for a database of another key or with a rolled-back salt table */
function checkKey(db: Database, key: Uint8Array): void {
  const row = db.query<{ value: Uint8Array }, []>("SELECT value FROM meta WHERE name = 'check'").get()
  if (row === null) throw new Error('incomplete')
  new Unsealer(key, saltReader(db)).unseal(CHECK_ROW, row.value)
}

function newSealer(db: Database, key: Uint8Array): Sealer {
  const salt = new Uint8Array(randomBytes(32))
  const { lastInsertRowid } = db.run('INSERT INTO salts (salt) VALUES (?)', [salt])
  return new Sealer(key, Number(lastInsertRowid), salt)
}

function readPoint(db: Database, key: Uint8Array): ChainPoint {
  const row = db.query<{ value: Uint8Array }, []>("SELECT value FROM meta WHERE name = 'point'").get()
  if (row === null) throw new Error('incomplete')
  return unsealPoint(new Unsealer(key, saltReader(db)), row.value)
}

/** A second connection for reading; the database must have been opened for writing before. */
export function openReadable(dir: string): Database {
  const db = new Database(join(dir, FILE_NAME), { readonly: true, strict: true })
  db.run(`PRAGMA busy_timeout = ${LIMITS.history_read_wait_ms}`)
  return db
}

export function saltReader(db: Database): (id: number) => Uint8Array | undefined {
  const select = db.query<{ salt: Uint8Array }, [number]>('SELECT salt FROM salts WHERE id = ?')
  return (id) => select.get(id)?.salt
}

export function markBroken(dir: string): void {
  writeFileSync(join(dir, BROKEN_NAME), '')
}

function discard(dir: string): void {
  for (const suffix of ['', '-wal', '-shm', '-journal'])
    rmSync(join(dir, FILE_NAME + suffix), { force: true })
  rmSync(join(dir, BROKEN_NAME), { force: true })
}
