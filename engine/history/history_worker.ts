/** The history's own thread: the only one that writes its database. */
import type { Database } from 'bun:sqlite'
import { constants, getPriority, setPriority } from 'node:os'
import { collectWhenQuiet } from '../collect_quiet'
import { openWritable } from './database'
import type { Reply, Request } from './messages'
import { pruneTables } from './prune_tables'
import { type EventWriter, eventWriter } from './write_events'

declare const self: Worker

// Linux gives a priority to the calling thread alone. Writing a batch takes a core for tens of milliseconds, and answers
// go first; a few steps only, as a history that starves makes the writer wait in the end.
setPriority(Math.min(constants.priority.PRIORITY_LOW, getPriority() + 5))

let opened: { db: Database; writer: EventWriter } | undefined

const reply = (message: Reply): void => self.postMessage(message)

function open(dir: string, key: Uint8Array): void {
  const { db, sealer, watermark } = openWritable(dir, key)
  opened = { db, writer: eventWriter(db, key, sealer) }
  reply({ op: 'opened', watermark })
}

async function prune(db: Database, cutoff_unix_ms: number): Promise<void> {
  const step = pruneTables(db, cutoff_unix_ms)
  while (step()) await new Promise<void>((resolve) => setImmediate(resolve))
  reply({ op: 'pruned' })
}

/** A failure names its kind only: SQLite's message could carry what was written. */
function failed(error: unknown): void {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  reply({ op: 'failed', message: `the history database failed: ${code}` })
}

function handle(request: Exclude<Request, { op: 'open' }>, { db, writer }: NonNullable<typeof opened>): void {
  switch (request.op) {
    case 'write':
      writer.write(request.accounts, request.watermark)
      reply({ op: 'written', watermark: request.watermark })
      break
    case 'prune':
      prune(db, request.cutoff_unix_ms).catch(failed)
      break
    case 'close':
      db.run('PRAGMA wal_checkpoint(TRUNCATE)')
      db.close()
      reply({ op: 'closed' })
  }
}

const worked = collectWhenQuiet()

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
