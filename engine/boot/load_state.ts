/** Opens the venue's folder and rebuilds the state: the newest snapshot that the read models cover, then a replay. */

import { join } from 'node:path'
import type { EngineConfig } from '../config'
import type { History } from '../history/contract'
import { openHistory } from '../history/open_history'
import type { Journal, JournalOptions } from '../journal/contract'
import { openJournal } from '../journal/open_journal'
import { openSnapshotStore, type Snapshot, type SnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeState } from '../machine/codec/decode_state'
import { createState, type State } from '../machine/state/state'
import type { KeysPort } from '../ports'
import { PublicFacts } from '../reads/public_facts'
import { randomHashSeed } from '../sequencer/hash_seed'
import { replay } from './replay'

export type Loaded = {
  journal: Journal
  snapshots: SnapshotStore
  history: History
  facts: PublicFacts
  state: State
  /** Records replayed after the snapshot. */
  replayed: number
}

/**
 * @param options for tests: small segments and injected write faults
 * @throws JournalDamaged, JournalLocked, ReplayDisagrees: the venue must not start.
 */
export async function loadState(
  config: EngineConfig,
  ports: { keys: KeysPort },
  options: Pick<JournalOptions, 'segment_bytes' | 'faults'> = {},
): Promise<Loaded> {
  const { data_dir, retention_days } = config
  const key = ports.keys.journal_key
  const journal = await openJournal({ dir: join(data_dir, 'journal'), key, ...options })
  const snapshots = openSnapshotStore({ dir: join(data_dir, 'snapshots'), key })
  const history = await openHistory({ dir: join(data_dir, 'history'), key, retention_days })
  const facts = new PublicFacts(join(data_dir, 'facts'), key)
  // The replay feeds the read models, so it begins where they end, or before.
  const reads_seq = Math.min(history.watermark(), facts.watermark())
  const { state, from } = await stateBefore(journal, snapshots, reads_seq)
  await replay({ journal, history, facts, state }, from)
  const replayed = journal.head().seq - from.seq
  // A full garbage collection delays no request here; later it would.
  Bun.gc(true)
  return { journal, snapshots, history, facts, state, replayed }
}

/** The state before the replay, and the journal position it includes. */
async function stateBefore(
  journal: Journal,
  snapshots: SnapshotStore,
  reads_seq: number,
): Promise<{ state: State; from: { seq: number; head: Uint8Array | undefined } }> {
  const snapshot = await startOf(journal, snapshots, reads_seq)
  const orders = LIMITS.orders_live_max
  const seed = randomHashSeed()
  if (snapshot === undefined) return { state: createState(seed, orders), from: { seq: 0, head: undefined } }
  const { seq, head } = snapshot
  return { state: decodeState(snapshot.blocks(), seed, orders), from: { seq, head } }
}

/**
 * The snapshot to start from: one that the read models cover. Without one they are rebuilt from the start of the journal;
 * if that start is pruned, the newest snapshot is used.
 */
async function startOf(
  journal: Journal,
  snapshots: SnapshotStore,
  reads_seq: number,
): Promise<Snapshot | undefined> {
  const covered = await snapshots.newestValid(reads_seq)
  const reaches = covered.snapshot !== undefined && covered.snapshot.seq + 1 >= journal.firstSeq()
  if (reaches || journal.firstSeq() === 1) return covered.snapshot
  return (await snapshots.newestValid()).snapshot
}
