/** Runs the thread that verifies old segments, snapshots and stores one after another, each on request. */

import { constants, setPriority } from 'node:os'
import { disk } from '../journal/disk'
import { checkSegment } from '../journal/read_segments'
import { segmentName, segmentNumber } from '../journal/segment_files'
import { openSnapshotStore, snapshotName } from '../journal/snapshot_store'
import { Stores } from '../stores/stores'
import type { Scrubbed } from './scrub'

declare const self: Worker

// Linux applies the priority to the calling thread only.
setPriority(constants.priority.PRIORITY_LOW)

/** A file and its check, which throws when the file is damaged. */
type Check = { name: string; verify(): void }

function checks({ journal_dir, snapshots_dir, stores_dir, key, kept }: Scrubbed): Check[] {
  const numbers = disk
    .list(journal_dir)
    .map(segmentNumber)
    .filter((number) => number !== undefined)
    .sort((a, b) => a - b)
  const snapshots = openSnapshotStore({ dir: snapshots_dir, key })
  // The newest segment is still being written. A file that was removed is in no listing, but its successor is.
  const finished = new Set([...numbers.slice(0, -1), ...numbers.slice(1).map((number) => number - 1)])
  const segments = Array.from(finished, (number) => ({
    name: segmentName(number),
    verify: () => checkSegment({ dir: journal_dir, key }, number),
  }))
  const seqs = [...new Set([...kept, ...snapshots.seqs()])]
  const files = seqs.map((seq) => ({ name: snapshotName(seq), verify: () => snapshots.verify(seq) }))
  return [...segments, ...files, ...Stores.checks({ dir: stores_dir, key }, seqs)].sort((a, b) =>
    a.name < b.name ? -1 : 1,
  )
}

function isWhole(check: Check): boolean {
  try {
    check.verify()
    return true
  } catch {
    return false
  }
}

const damaged = new Set<string>()
let last = ''

/**
 * Verifies the file behind the last one; after the newest comes the oldest.
 * @throws Error of a folder that cannot be listed at present
 */
function next(where: Scrubbed): void {
  const all = checks(where)
  for (const name of damaged) if (!all.some((one) => one.name === name)) damaged.delete(name)
  const check = all.find(({ name }) => name > last) ?? all[0]
  if (check === undefined) return
  last = check.name
  // A file that nothing needs any more, since it was listed, is not damaged.
  if (isWhole(check) || !checks(where).some(({ name }) => name === check.name)) damaged.delete(check.name)
  else damaged.add(check.name)
}

self.onmessage = ({ data }: MessageEvent<Scrubbed>) => {
  try {
    next(data)
  } catch {
    // An error would end this thread, and with it every later look.
  }
  self.postMessage([...damaged])
  // An idle thread collects nothing.
  Bun.gc(true)
}
