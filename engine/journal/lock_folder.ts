/** Keeps a second process out of a folder, by a lock that the kernel drops with the process that holds it. */
import { Database } from 'bun:sqlite'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { JournalLocked } from './contract'

/**
 * SQLite's exclusive lock on an empty database: gone after kill -9, and held against this process too. A file with a
 * process id in it would have to be judged stale, which two starters can do at the same time.
 * @returns release
 * @throws JournalLocked
 */
export function lockFolder(dir: string): () => void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const lock = new Database(join(dir, 'journal.lock'), { create: true })
  try {
    lock.run('PRAGMA busy_timeout = 0')
    lock.run('BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    throw new JournalLocked(`another process has ${dir} open`, { cause })
  }
  return () => lock.close()
}
