/** Makes the next snapshot of the last one and the journal records since, without the engine's own state. */

import { openSnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { journaledSeeds } from '../loop/journaled_seeds'
import { Replayer } from '../loop/replay_record'
import { decodeState } from '../state/decode_state'
import { encodeBlocks } from '../state/encode_state'
import { createState } from '../state/state'
import { durableRecords } from './durable_records'
import type { SnapshotPoint, SnapshotSource } from './messages'

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
