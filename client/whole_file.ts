/** Writes files whole, and locks a file or folder against other processes. Bun and Node. */

import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { TacitError } from '../protocol/tacit_error'

/** Writes files whole: a reader sees the old content or the new, never a part, whenever the process ends. Bun and Node. */

/** The disk is full or the place is not writable; the file is as it was before. */
export class NotWritten extends TacitError<{ path: string }> {
  override readonly name = 'NotWritten'
  readonly code = 'not_written'
  constructor(path: string, cause: unknown) {
    super(`${path} cannot be written: ${(cause as Error).message}`, { path }, { cause })
  }
}

/** Content and name are on disk before it returns. @param mode permissions of a new file. @throws NotWritten */
export function writeWhole(path: string, content: string | Uint8Array, mode: number): void {
  const [next, last] = [`${path}.new`, `${path}.last`]
  let renamed = false
  try {
    // The remains of an interrupted write keep their mode, and a link there leads elsewhere.
    for (const left of [next, last]) rmSync(left, { force: true })
    // Writes all of it or throws; writeSync may write a part.
    synced(next, 'wx', mode, (file) => writeFileSync(file, content))
    if (existsSync(path)) keep(path, last)
    renameSync(next, path)
    renamed = true
    synced(folderOf(path), 'r')
  } catch (cause) {
    if (renamed) putBack(path, last)
    rmSync(next, { force: true })
    throw new NotWritten(path, cause)
  } finally {
    rmSync(last, { force: true })
  }
}

/**
 * Makes a file that must not exist yet; content and name are on disk before it returns. A failure leaves no file.
 * @throws NotWritten
 */
export function writeNew(path: string, content: string | Uint8Array, mode: number): void {
  let made = false
  try {
    synced(path, 'wx', mode, (file) => {
      made = true
      writeFileSync(file, content)
    })
    synced(folderOf(path), 'r')
  } catch (cause) {
    if (made) rmSync(path, { force: true })
    throw new NotWritten(path, cause)
  }
}

const folderOf = (path: string) => (path.includes('/') ? path.replace(/[^/]*$/, '') : '.')

function keep(path: string, last: string): void {
  try {
    linkSync(path, last)
  } catch {
    // Not every file system has links.
    copyFileSync(path, last)
  }
}

/** A new name that is not on disk would show content that is reported as not written. */
function putBack(path: string, last: string): void {
  try {
    if (existsSync(last)) renameSync(last, path)
    else rmSync(path, { force: true })
  } catch {
    // The disk takes nothing any more: the next save decides.
  }
}

function synced(path: string, flags: 'r' | 'wx', mode?: number, use?: (file: number) => void): void {
  const file = openSync(path, flags, mode)
  try {
    use?.(file)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Locks a file or folder against other processes until it is released or this process ends. Bun, and Node from 22.5. */

/** Another process or session works on the file: wait for it to end. */
export class InUse extends TacitError<{ named: string }> {
  override readonly name = 'InUse'
  readonly code = 'in_use'
  constructor(named: string) {
    super(`another program uses ${named}: wait for it to end`, { named })
  }
}

type Database = { exec(sql: string): void; close(): void }
type Sqlite = { DatabaseSync: new (path: string) => Database }

/** Undefined in Node before 22.5. */
const sqlite = () => process.getBuiltinModule('node:sqlite') as Sqlite | undefined
/** By path; a database that nothing refers to is closed, and its lock with it. */
const held = new Map<string, Database | undefined>()

/** The absolute path. The module is asked for here, because a browser's bundle would take a copy of it along. */
export const placeOf = (path: string): string => process.getBuiltinModule('node:path').resolve(path)

/** Whether this process holds the lock. */
export const isLocked = (named: string): boolean => held.has(placeOf(named))

/**
 * SQLite's exclusive lock on an empty database: the kernel drops it with the process, so no lock is ever stale. The file stays:
 * removing it would let two processes lock two files of one name. Without SQLite nothing is locked.
 * @returns the release
 * @throws InUse, NotWritten
 */
export function lockFile(named: string): () => void {
  const path = placeOf(named)
  if (held.has(path)) throw new InUse(named)
  const platform = sqlite()
  held.set(path, platform && exclusive(platform, named, path))
  return () => {
    held.get(path)?.close()
    held.delete(path)
  }
}

function exclusive({ DatabaseSync }: Sqlite, named: string, path: string): Database {
  let lock: Database | undefined
  try {
    lock = new DatabaseSync(`${path}.lock`)
    lock.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE')
    return lock
  } catch (error) {
    lock?.close()
    throw /locked|busy/i.test(String(error)) ? new InUse(named) : new NotWritten(`${named}.lock`, error)
  }
}
