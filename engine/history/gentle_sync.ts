/** Syncs the history's files in small pieces, so that a sync of the journal never waits for a long one of the history. */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { disk } from '../journal/disk'
import { LIMITS } from '../limits'
import { FILE_NAME, isDiskError } from './database'

/** A file that SQLite writes. It is closed behind the connection: an earlier close would end the locks of this process on it. */
class WrittenFile {
  private readonly fd: number
  /** A descriptor reports a write error once. `writeOut` uses this one, so that `sync` still sees the error on the other. */
  private readonly waiting_fd: number

  constructor(private readonly path: string) {
    this.fd = disk.openSync(path, 'r')
    this.waiting_fd = disk.openSync(path, 'r')
  }

  /** Leaves little to a sync. The journal waits for one piece at most. */
  writeOut(): void {
    const bytes = disk.size(this.path)
    const { history_write_out_bytes: step } = LIMITS
    for (let at = 0; at < bytes; at += step) disk.writeOut(this.waiting_fd, at, step)
  }

  sync(): void {
    this.writeOut()
    disk.datasync(this.fd)
  }

  close(): void {
    disk.closeSync(this.fd)
    disk.closeSync(this.waiting_fd)
  }
}

/**
 * Replaces SQLite's syncs at commits and its own checkpoints. A power loss drops the commits since the last `sync`, the newest first and
 * each as a whole. After a failed sync nothing may be written: the kernel marks pages as clean that it could not write.
 */
export class GentleSync {
  private readonly file: WrittenFile
  private readonly log: WrittenFile
  private merged_changes = 0
  private failure: unknown

  constructor(
    private readonly db: Database,
    dir: string,
  ) {
    this.file = new WrittenFile(join(dir, FILE_NAME))
    this.log = new WrittenFile(join(dir, `${FILE_NAME}-wal`))
    const folder = disk.openSync(dir, 'r')
    disk.sync(folder)
    disk.closeSync(folder)
  }

  /** Before each write. @throws the error of an earlier sync */
  check(): void {
    if (this.failure !== undefined) throw this.failure
  }

  /** After each commit. @throws Error when a sync fails */
  committed(): void {
    this.check()
    this.log.writeOut()
    const { changes } = this.db.query<{ changes: number }, []>('SELECT total_changes() AS changes').get()!
    if (changes - this.merged_changes < LIMITS.history_merge_rows) return
    try {
      for (const _ of this.merge());
      this.merged_changes = changes
    } catch (error) {
      // The log grows until the disk accepts it.
      if (!isDiskError(error)) throw error
    }
  }

  /** Makes all commits so far durable. @throws Error when it fails, now or earlier */
  sync(): void {
    this.check()
    this.surely(() => this.log.sync())
  }

  private surely(sync: () => void): void {
    try {
      sync()
    } catch (error) {
      this.failure = error
      throw error
    }
  }

  /**
   * Moves the log into the database: the log is durable before the database changes, and the database before the next
   * commit, which begins the log again. SQLite syncs only the new log's header.
   */
  *merge(): Generator<void> {
    yield this.sync()
    // SQLite would sync all that it wrote at once.
    this.db.run('PRAGMA synchronous = OFF')
    try {
      this.db.run('PRAGMA wal_checkpoint(PASSIVE)')
    } finally {
      this.db.run('PRAGMA synchronous = NORMAL')
    }
    yield
    yield this.surely(() => this.file.sync())
  }

  close(): void {
    this.file.close()
    this.log.close()
  }
}
