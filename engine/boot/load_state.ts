/** Opens the venue's folder and rebuilds the state: newest snapshot that the read models can follow, then replay. */

import { join } from 'node:path'
import type { EngineConfig } from '../config'
import type { History } from '../history/contract'
import { openHistory } from '../history/open_history'
import type { Journal, JournalOptions } from '../journal/contract'
import { openJournal } from '../journal/open_journal'
import { openSnapshotStore, type Snapshot, type SnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeState } from '../machine/codec/decode_state'
import type { Env } from '../machine/state/outcome'
import { createState, type State } from '../machine/state/state'
import type { ChainPort, KeysPort } from '../ports'
import { PublicFacts } from '../reads/public_facts'
import { journaledSeeds } from '../sequencer/seeds'
import { replay } from './replay'

export type Loaded = {
  journal: Journal
  snapshots: SnapshotStore
  history: History
  facts: PublicFacts
  state: State
  batchSeed: Env['batchSeed']
  /** Records replayed after the snapshot. */
  replayed: number
}

/**
 * `options` are for tests: small segments and injected write faults.
 * @throws JournalDamaged, JournalLocked, ReplayDisagrees: the venue must not start.
 */
export async function loadState(
  config: EngineConfig,
  ports: { keys: KeysPort; chain: ChainPort },
  options: Pick<JournalOptions, 'segment_bytes' | 'faults'> = {},
): Promise<Loaded> {
  const { data_dir, retention_days } = config
  const key = ports.keys.journal_key
  const journal = await openJournal({ dir: join(data_dir, 'journal'), key, ...options })
  const snapshots = openSnapshotStore({ dir: join(data_dir, 'snapshots'), key })
  const history = await openHistory({ dir: join(data_dir, 'history'), key, retention_days })
  const facts = new PublicFacts(join(data_dir, 'facts'), key)
  // Read models are fed by the replay, so it begins where they end, or before.
  const reads_seq = Math.min(history.watermark(), facts.watermark())
  const { state, from } = await stateBefore(journal, snapshots, reads_seq)
  const { genesis_hash, program_id, config_account } = ports.chain
  const { tie_break_key } = ports.keys
  const seeds = journaledSeeds(state, { tie_break_key, genesis_hash, program_id, config_account })
  await replay({ journal, history, facts, state, env: { batchSeed: seeds } }, from)
  const replayed = journal.head().seq - from.seq
  // Nobody waits for a collection here; later somebody would.
  Bun.gc(true)
  return { journal, snapshots, history, facts, state, batchSeed: seeds, replayed }
}

/** The state the replay begins with. */
async function stateBefore(
  journal: Journal,
  snapshots: SnapshotStore,
  reads_seq: number,
): Promise<{ state: State; from: { seq: number; head: Uint8Array | undefined } }> {
  const snapshot = await startOf(journal, snapshots, reads_seq)
  const orders = LIMITS.orders_live_max
  if (snapshot === undefined) return { state: createState(orders), from: { seq: 0, head: undefined } }
  const { seq, head } = snapshot
  return { state: decodeState(snapshot.blocks(), orders), from: { seq, head } }
}

/** Read models that end before every snapshot are rebuilt from the start while the journal still has it. */
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
