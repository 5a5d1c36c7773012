/** Makes the next snapshot from the last one and the journal records since, and finds the segments it makes unneeded. */

import type { ChainPoint } from '../../protocol/units'
import { JournalDamaged, type JournalRecord } from '../journal/contract'
import { readRecords } from '../journal/frame'
import { readSegments } from '../journal/read_segments'
import { listSegments } from '../journal/segment_files'
import type { SegmentHeader } from '../journal/segment_header'
import { openSnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeState, encodeBlocks } from '../machine/codec/state_codec'
import { coverable } from '../machine/state/past'
import { createState } from '../machine/state/state'
import { releaseBytes } from '../memory/idle_gc'
import { Replayer, snapshotTaken } from '../sequencer/replayer'
import { randomHashSeed } from '../sequencer/seeds'
import { Stores } from '../stores/stores'
import type { JournaledSnapshot, MadeSnapshot, SnapshotPoint, SnapshotSource } from './snapshotting'

/**
 * Verified records from `from_seq` to `seq_last`, in chunks, each valid until the next is requested. The thread that writes the
 * journal may be running, so bytes after the frame of `seq_last` may still be in flight and are not read.
 * @param expected places that the chain must pass
 * @throws JournalDamaged, RangeError as readSegments does
 */
export function* durableRecords(
  where: { dir: string; key: Uint8Array },
  from_seq: number,
  expected: readonly ChainPoint[],
  seq_last: number,
): Generator<JournalRecord[]> {
  const segments = listSegments(where.dir, where.key)
  const reader = readSegments(where, segments, { seq: seq_last }, from_seq, expected)
  try {
    for (let last = false; !last; ) {
      const chunk = reader.next()
      last = chunk.last
      const records: JournalRecord[] = []
      readRecords(chunk.groups, from_seq, records)
      yield records.filter(({ seq }) => seq <= seq_last)
      releaseBytes(chunk.groups)
    }
  } finally {
    reader.stop()
  }
}

/** Chunks between two garbage collections: each has about 1 MiB and leaves several MiB of garbage. */
const COLLECT_EVERY = 4

/**
 * Makes the snapshot of `point` and the stores behind it without the engine's state. Replays as a boot would, so each snapshot
 * also verifies that a boot reaches the same state. The files may have changed since this process wrote them: only a snapshot
 * of the journaled hash with whole stores, the one before if the newest is none, and the records that lead to the head of `point` are taken.
 * @throws ReplayDisagrees, JournalDamaged, StoreDamaged
 */
export async function makeSnapshot(
  source: SnapshotSource,
  point: SnapshotPoint,
): Promise<Omit<MadeSnapshot, 'retire_before'>> {
  const { journal_dir, snapshots_dir, stores_dir, journal_key } = source
  const store = openSnapshotStore({ dir: snapshots_dir, key: journal_key })
  const where = { dir: journal_dir, key: journal_key }
  const { newest } = point
  const stores_at = { dir: stores_dir, key: journal_key }
  let base: JournaledSnapshot | undefined
  const hashOf = async (at: ChainPoint) => {
    const journaled = at.seq === newest?.seq ? newest : newest && journaledAt(where, at, point)
    base = journaled && Stores.areWhole(stores_at, journaled) ? journaled : undefined
    return base?.state_hash
  }
  const { snapshot } = await store.newestValid(hashOf, point.seq)
  const orders = LIMITS.orders_live_max
  const seed = randomHashSeed()
  const state =
    snapshot === undefined
      ? createState(seed, orders)
      : decodeState(collecting(snapshot.blocks()), seed, orders)
  const stores =
    snapshot === undefined || base === undefined
      ? Stores.empty(stores_at)
      : Stores.open(stores_at, base.seq, base.catalogue_hash)
  const passed = snapshot === undefined ? [point] : [snapshot, point]
  const from_seq = (snapshot?.seq ?? 0) + 1
  try {
    const replayer = new Replayer(state, stores)
    for (const records of collecting(durableRecords(where, from_seq, passed, point.seq))) {
      for (const record of records) replayer.apply(record)
    }
    replayer.end(point.seq)
    const covered = coverable(state)
    stores.extend(state, covered)
    const catalogue_hash = stores.write(point.seq)
    stores.scrub()
    // A start may have passed over the base, as its disk failed then.
    const counts = Math.max(newest?.seq ?? 0, snapshot?.seq ?? 0)
    const state_hash = await store.writeSnapshot(point, () => collecting(encodeBlocks(state)), counts)
    stores.close()
    return { state_hash, catalogue_hash, covered, made_of: snapshot?.seq }
  } catch (error) {
    stores.discard()
    throw error
  }
}

/** The journal's record of the snapshot at `at`, before `point`; undefined without one, or if the chain does not pass there. */
function journaledAt(
  where: { dir: string; key: Uint8Array },
  at: ChainPoint,
  point: ChainPoint,
): JournaledSnapshot | undefined {
  try {
    let found: JournaledSnapshot | undefined
    for (const records of durableRecords(where, at.seq + 1, [at, point], point.seq)) {
      for (const record of records) found ??= snapshotTaken(record, at.seq)
    }
    return found
  } catch (error) {
    if (error instanceof RangeError || error instanceof JournalDamaged) return undefined
    throw error
  }
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

/**
 * Seq below which segments may be retired: older than the retention, and before the previous snapshot too, to which a boot
 * falls back if the newest does not authenticate. 0 for none.
 * @param previous its seq
 */
export function retirableBefore(
  source: SnapshotSource,
  point: Omit<SnapshotPoint, 'newest'>,
  previous = 0,
): number {
  const { journal_dir, journal_key, retention_ms } = source
  const where = { dir: journal_dir, key: journal_key }
  const segments = listSegments(journal_dir, journal_key)
  let before = 0
  for (const next of segments.slice(1)) {
    if (next.seq > previous) break
    // Times never decrease, so all records before this one are at least as old.
    if (!(firstTime(where, next, point) < point.unix_ms - retention_ms)) break
    before = next.seq + 1
  }
  return before
}

/** Time of a segment's first record; infinite when the record is not known to be durable, or is damaged. */
function firstTime(
  where: { dir: string; key: Uint8Array },
  { seq }: SegmentHeader,
  point: Omit<SnapshotPoint, 'newest'>,
): number {
  if (seq >= point.seq) return Number.POSITIVE_INFINITY
  try {
    for (const [record] of durableRecords(where, seq + 1, [], point.seq)) return record!.unix_ms
  } catch (error) {
    // No snapshot needs this segment: the scrub names it, and it stays as the only trace of its records.
    if (!(error instanceof JournalDamaged)) throw error
  }
  return Number.POSITIVE_INFINITY
}
