/** Makes the next snapshot from the last one and the journal records since, and finds the segments it makes unneeded. */

import type { JournalRecord } from '../journal/contract'
import { readRecords } from '../journal/frame'
import { readSegments } from '../journal/read_segments'
import { listSegments } from '../journal/segment_files'
import type { SegmentHeader } from '../journal/segment_header'
import { openSnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeState } from '../machine/codec/decode_state'
import { encodeBlocks } from '../machine/codec/encode_state'
import { createState } from '../machine/state/state'
import { randomHashSeed } from '../sequencer/hash_seed'
import { Replayer } from '../sequencer/replayer'
import type { SnapshotPoint, SnapshotSource } from './open_snapshot_maker'

/**
 * Verified records from `from_seq` to `seq_last`, in chunks. Runs beside the thread that writes the journal, so bytes
 * after the frame of `seq_last` may still be in flight and are not read.
 * @param head_before chain head after record from_seq - 1
 * @throws JournalDamaged, RangeError as readSegments does
 */
export function* durableRecords(
  where: { dir: string; key: Uint8Array },
  from_seq: number,
  head_before: Uint8Array | undefined,
  seq_last: number,
): Generator<JournalRecord[]> {
  const segments = listSegments(where.dir, where.key)
  const reader = readSegments(where, segments, { seq: seq_last }, from_seq, head_before)
  try {
    for (let last = false; !last; ) {
      const chunk = reader.next()
      last = chunk.last
      const records: JournalRecord[] = []
      readRecords(chunk.groups, from_seq, records)
      yield records.filter(({ seq }) => seq <= seq_last)
    }
  } finally {
    reader.stop()
  }
}

/** Chunks between two garbage collections: each has about 1 MiB and leaves several MiB of garbage. */
const COLLECT_EVERY = 16

/**
 * Makes the snapshot of `point` without the engine's state. Replays what a boot would replay, so each snapshot also
 * verifies that a boot reaches the same state.
 * @throws ReplayDisagrees, JournalDamaged
 */
export async function makeSnapshot(source: SnapshotSource, point: SnapshotPoint): Promise<void> {
  const { journal_dir, snapshots_dir, journal_key } = source
  const store = openSnapshotStore({ dir: snapshots_dir, key: journal_key })
  const { snapshot } = await store.newestValid(point.seq)
  if (snapshot?.seq === point.seq) return
  const orders = LIMITS.orders_live_max
  const seed = randomHashSeed()
  const state =
    snapshot === undefined
      ? createState(seed, orders)
      : decodeState(collecting(snapshot.blocks()), seed, orders)
  const replayer = new Replayer(state, () => false)
  const where = { dir: journal_dir, key: journal_key }
  const from_seq = (snapshot?.seq ?? 0) + 1
  for (const records of collecting(durableRecords(where, from_seq, snapshot?.head, point.seq))) {
    for (const record of records) replayer.apply(record)
  }
  replayer.end(point.seq)
  await store.writeSnapshot(point.seq, point.head, () => collecting(encodeBlocks(state)))
}

/**
 * Passes chunks through and collects garbage regularly. By default a thread lets its heap double before it collects,
 * and the live heap here is a second copy of the state.
 */
function* collecting<T>(chunks: Iterable<T>): Generator<T, void, undefined> {
  let taken = 0
  for (const chunk of chunks) {
    if (++taken % COLLECT_EVERY === 0) Bun.gc(true)
    yield chunk
  }
}

/** A boot must be able to fall back to the second newest snapshot if the newest does not authenticate. */
const SNAPSHOTS_NEEDED = 2

/** Seq below which segments may be retired: older than the retention and before both needed snapshots. 0 for none. */
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
    // Times never decrease, so all records before this one are at least as old.
    if (!(firstTime(where, next, point) < point.unix_ms - retention_ms)) break
    before = next.seq + 1
  }
  return before
}

/** Time of a segment's first record; infinite when the record is not known to be durable. */
function firstTime(
  where: { dir: string; key: Uint8Array },
  { seq }: SegmentHeader,
  point: SnapshotPoint,
): number {
  if (seq >= point.seq) return Number.POSITIVE_INFINITY
  for (const [record] of durableRecords(where, seq + 1, undefined, point.seq)) return record!.unix_ms
  return Number.POSITIVE_INFINITY
}
