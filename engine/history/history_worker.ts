/** Runs the history's thread, the only one that writes its database. */

import type { Database } from 'bun:sqlite'
import { constants, getPriority, setPriority } from 'node:os'
import { collectWhenQuiet } from '../memory/idle_gc'
import type { Reply, Request } from './contract'
import { isDiskError, openWritable } from './database'
import { GentleSync } from './gentle_sync'
import { pruneTables } from './prune_tables'
import { Names } from './seal'
import { type GentleWrites, writeGently } from './write_gently'
import { eventWriter } from './write_tables'

declare const self: Worker

// Linux applies the priority to the calling thread only. A batch occupies a core for tens of milliseconds, and request
// threads go first; only a few steps lower, because a starved history ends in backpressure on the writer.
setPriority(Math.min(constants.priority.PRIORITY_LOW, getPriority() + 5))

type Opened = { db: Database; files: GentleSync; names: Names; writes: GentleWrites }
let opened: Opened | undefined

const reply = (message: Reply): void => self.postMessage(message)

function open(dir: string, key: Uint8Array): void {
  const { db, sealer, point } = openWritable(dir, key)
  const files = new GentleSync(db, dir)
  const written = (until: number) => {
    reply({ op: 'written', watermark: until })
    files.committed()
  }
  const names = new Names(key)
  const writer = eventWriter(db, key, names, sealer)
  opened = {
    db,
    files,
    names,
    writes: writeGently(
      {
        ...writer,
        write(...batch) {
          files.check()
          return writer.write(...batch)
        },
      },
      written,
      () => reply({ op: 'stalled' }),
      failed,
    ),
  }
  reply({ op: 'opened', point })
}

async function prune({ db, files, names, writes }: Opened, cutoff_unix_ms: number): Promise<void> {
  const step = pruneTables(db, names, cutoff_unix_ms)
  try {
    for (await writes.idle(); step(); await writes.idle()) {
      // Throws before another step, if a sync failed.
      files.committed()
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  } catch (error) {
    // The next round deletes the rest.
    if (!isDiskError(error)) throw error
  }
  reply({ op: 'pruned' })
}

async function close({ db, files, writes }: Opened): Promise<void> {
  await writes.idle()
  try {
    db.run('PRAGMA wal_checkpoint(TRUNCATE)')
  } catch {
    // The next opening reads the write-ahead log.
  }
  db.close()
  files.close()
  reply({ op: 'closed' })
}

/** Reports SQLite's code only: its message could contain stored data. */
function failed(error: unknown): void {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  reply({ op: 'failed', message: `the history database failed: ${code}` })
}

function handle(request: Exclude<Request, { op: 'open' }>, opened: Opened): void {
  switch (request.op) {
    case 'write':
      opened.writes.push({ events: request.events, point: request.point })
      break
    case 'sync':
      opened.files.sync()
      reply({ op: 'synced' })
      break
    case 'prune':
      prune(opened, request.cutoff_unix_ms).catch(failed)
      break
    case 'close':
      close(opened).catch(failed)
  }
}

/** Frees cached pages while the thread is idle. */
const worked = collectWhenQuiet(() => {
  opened?.db.run('PRAGMA shrink_memory')
  Bun.gc(true)
})

self.onmessage = ({ data }: MessageEvent<Request>) => {
  worked()
  try {
    if (data.op === 'open') open(data.dir, data.key)
    else if (opened !== undefined) handle(data, opened)
  } catch (error) {
    if (data.op === 'open') reply({ op: 'refused', message: 'the history database cannot be made' })
    else failed(error)
  }
}
