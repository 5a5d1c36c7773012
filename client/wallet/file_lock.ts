/** Locks a file or folder against other processes until it is released or this process ends. Bun, and Node from 22.5. */
import { TacitError } from '../../protocol/tacit_error'
import { NotWritten } from '../whole_file'

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
 * SQLite's exclusive lock on an empty database: the kernel drops it with the process, so no lock is ever stale. The file
 * stays: removing it would let two processes lock two files of one name. Without SQLite nothing is locked.
 * @returns what releases it. @throws InUse, NotWritten
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
