/** Makes the next snapshot from the last one and the journal records since. */

import type { JournalRecord } from '../journal/contract'
import { readRecords } from '../journal/frame'
import { readSegments } from '../journal/read_segments'
import { listSegments } from '../journal/segment_files'
import { openSnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeState } from '../machine/codec/decode_state'
import { encodeBlocks } from '../machine/codec/encode_state'
import { createState } from '../machine/state/state'
import { Replayer } from '../sequencer/replayer'
import { journaledSeeds } from '../sequencer/seeds'
import type { SnapshotPoint, SnapshotSource } from './open_snapshot_maker'

// Reads the journal's files beside the thread that writes them: only what is known to be durable is looked at.

/**
 * Records from `from_seq` to `seq_last` in chunks, checked on the way. What lies behind the frame of `seq_last` may be
 * under way and counts for nothing.
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

// Makes the next snapshot of the last one and the journal records since, without the engine's own state.

/** Chunks of about a megabyte, each of which leaves some megabytes of garbage. */
const COLLECT_EVERY = 16

/**
 * Replays what a boot would replay, so that every snapshot is also a check that one would agree.
 * @throws ReplayDisagrees, JournalDamaged
 */
export async function makeSnapshot(source: SnapshotSource, point: SnapshotPoint): Promise<void> {
  const { journal_dir, snapshots_dir, journal_key, seeds } = source
  const store = openSnapshotStore({ dir: snapshots_dir, key: journal_key })
  const { snapshot } = await store.newestValid(point.seq)
  if (snapshot?.seq === point.seq) return
  const orders = LIMITS.orders_live_max
  const state =
    snapshot === undefined ? createState(orders) : decodeState(collecting(snapshot.blocks()), orders)
  const replayer = new Replayer(state, { batchSeed: journaledSeeds(state, seeds) }, () => false)
  const where = { dir: journal_dir, key: journal_key }
  const from_seq = (snapshot?.seq ?? 0) + 1
  for (const records of collecting(durableRecords(where, from_seq, snapshot?.head, point.seq))) {
    for (const record of records) replayer.apply(record)
  }
  replayer.end(point.seq)
  await store.writeSnapshot(point.seq, point.head, () => collecting(encodeBlocks(state)))
}

/**
 * The same, collecting garbage on the way. Left alone, a thread lets as much gather as lives, and what lives here is a
 * second state beside the engine's own.
 */
function* collecting<T>(chunks: Iterable<T>): Generator<T, void, undefined> {
  let taken = 0
  for (const chunk of chunks) {
    if (++taken % COLLECT_EVERY === 0) Bun.gc(true)
    yield chunk
  }
}
