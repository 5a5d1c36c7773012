/** Which journal records are no longer needed: older than the retention and behind both kept snapshots. */
import { listSegments } from '../journal/segment_files'
import type { SegmentHeader } from '../journal/segment_header'
import { openSnapshotStore } from '../journal/snapshot_store'
import { durableRecords } from './durable_records'
import type { SnapshotPoint, SnapshotSource } from './messages'

/** Snapshots that must stand: should the newest not authenticate, the one before it takes its place. */
const SNAPSHOTS_NEEDED = 2

/** Seq below which whole segments may go; 0 when none may. */
export function retirableBefore(source: SnapshotSource, point: SnapshotPoint): number {
  const { journal_dir, snapshots_dir, journal_key, retention_ms } = source
  const snapshots = openSnapshotStore({ dir: snapshots_dir, key: journal_key }).seqs()
  const oldest_needed = snapshots[SNAPSHOTS_NEEDED - 1]
  if (oldest_needed === undefined) return 0
  const where = { dir: journal_dir, key: journal_key }
  const segments = listSegments(journal_dir, journal_key)
  let before = 0
  for (const next of segments.slice(1)) {
    if (next.seq > oldest_needed) break
    // Times only grow, so everything in front of this record is older still.
    if (!(firstTime(where, next, point) < point.unix_ms - retention_ms)) break
    before = next.seq + 1
  }
  return before
}

/** Time of the first record of a segment; infinite when it is not known to be durable. */
function firstTime(
  where: { dir: string; key: Uint8Array },
  { seq }: SegmentHeader,
  point: SnapshotPoint,
): number {
  if (seq >= point.seq) return Number.POSITIVE_INFINITY
  for (const [record] of durableRecords(where, seq + 1, undefined, point.seq)) return record!.unix_ms
  return Number.POSITIVE_INFINITY
}
