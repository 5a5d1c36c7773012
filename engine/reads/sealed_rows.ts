/** Stores small derived rows on the untrusted disk: values encrypted and bound to their name, names hidden. */

import { Database } from 'bun:sqlite'
import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { sealText, unsealText } from '../history/seal'
import { LIMITS } from '../limits'
import { LruTexts } from '../memory/texts'

export class SealedRows {
  private readonly db: Database
  private readonly names: Uint8Array
  private readonly values: Uint8Array
  /** Cached values by name; undefined for an absent row. Callers must not modify them. */
  private readonly known = new LruTexts<{ value: unknown }>(LIMITS.facts_characters_max)

  /** Grows with each change. */
  version = 0

  /** @param dir folder of the database, created if absent. @param key 32 bytes */
  constructor(dir: string, key: Uint8Array) {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    this.names = derive(key, 'names')
    this.values = derive(key, 'values')
    this.db = new Database(join(dir, 'facts.sqlite'), { create: true, strict: true })
    this.db.run('PRAGMA journal_mode = WAL')
    this.db.run('PRAGMA synchronous = NORMAL')
    this.db.run('CREATE TABLE IF NOT EXISTS facts (name BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID')
  }

  /** Undefined for a row that is absent or does not authenticate. */
  get<T>(name: string): T | undefined {
    const known = this.known.get(name) ?? this.read(name)
    return known.value as T | undefined
  }

  set(name: string, value: unknown): void {
    const sealed = sealText(this.values, randomBytes(12), name, JSON.stringify(value))
    this.db.query('INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)').run(this.nameOf(name), sealed)
    this.version++
    this.known.delete(name)
  }

  delete(name: string): void {
    this.db.query('DELETE FROM facts WHERE name = ?').run(this.nameOf(name))
    this.version++
    this.known.delete(name)
  }

  clear(): void {
    this.db.run('DELETE FROM facts')
    this.version++
    this.known.clear()
  }

  /** Runs `work` in one transaction. */
  together(work: () => void): void {
    try {
      this.db.transaction(work)()
    } catch (error) {
      // Reads within the transaction may have cached values that were rolled back.
      this.version++
      this.known.clear()
      throw error
    }
  }

  /** Everything written so far survives a power loss. */
  sync(): void {
    this.db.run('PRAGMA wal_checkpoint(TRUNCATE)')
  }

  close(): void {
    this.db.close()
  }

  private read(name: string): { value: unknown } {
    const row = this.db
      .query<{ value: Uint8Array }, [Uint8Array]>('SELECT value FROM facts WHERE name = ?')
      .get(this.nameOf(name))
    const known = { value: row === null ? undefined : this.open(name, row.value) }
    this.known.set(name, known, name.length + (row?.value.length ?? 0))
    return known
  }

  private nameOf(name: string): Uint8Array {
    return new Uint8Array(createHmac('sha256', this.names).update(name).digest().subarray(0, 16))
  }

  /** Undefined for a row that was modified on disk: it counts as lost, and is rebuilt from the journal. */
  private open(name: string, sealed: Uint8Array): unknown {
    try {
      return JSON.parse(unsealText(this.values, name, sealed))
    } catch {
      return undefined
    }
  }
}

function derive(key: Uint8Array, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), `tacit/facts/v3/${purpose}`, 32))
}
