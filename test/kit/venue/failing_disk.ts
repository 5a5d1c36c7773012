/** Starts a journal's thread whose disk fails or stalls at a chosen moment. */

import type { JournalOptions } from '../../../engine/journal/contract'

/** Writes of frames and their syncs are counted from the start of the thread, 1 = the first. */
export type DiskFaults = {
  /** This write fails with ENOSPC after half of its sectors. */
  write_fails_at?: number
  /** This sync fails with EIO. */
  sync_fails_at?: number
  /** While this file exists, writes fail with ENOSPC, syncs fail with EIO, or syncs last. */
  while?: { exists: string; trouble: 'write_fails' | 'sync_fails' | 'sync_lasts' }
}

/** Options of the journal; none without faults. */
export function failing(faults?: DiskFaults): Pick<JournalOptions, 'thread'> {
  if (faults === undefined) return {}
  const argv = [JSON.stringify(faults)]
  return { thread: () => new Worker(new URL('./failing_journal_worker.ts', import.meta.url), { argv }) }
}
