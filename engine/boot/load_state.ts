/** Opens the venue's folder and rebuilds the state: the newest snapshot that the read models cover, then a replay. */

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { JournalSeq } from '../../protocol/units'
import type { EngineConfig } from '../config'
import type { History } from '../history/contract'
import { openHistory } from '../history/open_history'
import type { ChainPoint, Journal, JournalOptions } from '../journal/contract'
import { openJournal } from '../journal/open_journal'
import { openSnapshotStore, type Snapshot, type SnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeState } from '../machine/codec/decode_state'
import { createState, type State } from '../machine/state/state'
import type { ChainPort, KeysPort, VaultConfig } from '../ports'
import { PublicFacts } from '../reads/public_facts'
import { randomHashSeed } from '../sequencer/hash_seed'
import { journaledHash, judgeJournal, positionOf } from './check_chain'
import { replay } from './replay'

export type Loaded = {
  journal: Journal
  snapshots: SnapshotStore
  history: History
  facts: PublicFacts
  state: State
  /** From which the replay began. */
  snapshot: Snapshot | undefined
  /** Of the chain on the files. */
  verdict: Awaited<ReturnType<typeof judgeJournal>>
}

/**
 * A tail that is not signed is not replayed, and so nothing of the journal: who wrote it is unknown.
 * @param vault as read before the journal is opened
 * @param options for tests: small segments and a failing disk
 * @throws JournalDamaged, JournalLocked, ReplayDisagrees: the venue must not start.
 */
export async function loadState(
  config: EngineConfig,
  ports: { keys: KeysPort; chain: ChainPort },
  vault: VaultConfig,
  options: Pick<JournalOptions, 'segment_bytes' | 'thread'> = {},
): Promise<Loaded> {
  const { data_dir } = config
  const key = ports.keys.journal_key
  const journal = await openJournal({ dir: join(data_dir, 'journal'), key, ...options })
  const snapshots = openSnapshotStore({ dir: join(data_dir, 'snapshots'), key })
  const verdict = await judgeJournal(vault, ports.chain, journal)
  // A journal that the chain contradicts may be the wrong one, and its read models those of the right one.
  const newest = verdict.fault === undefined ? journal.head().seq : Number.POSITIVE_INFINITY
  const { history, facts } = await openReadModels(config, key, newest)
  const is_replayed = verdict.fault !== 'tail_unsigned'
  // The replay feeds the read models, so it begins where they end, or before.
  const reads_seq = Math.min(history.watermark(), facts.watermark())
  const snapshot = is_replayed ? await startOf(journal, snapshots, reads_seq) : undefined
  const orders = LIMITS.orders_live_max
  const seed = randomHashSeed()
  const state =
    snapshot === undefined ? createState(seed, orders) : decodeState(snapshot.blocks(), seed, orders)
  // A chain that contradicts the journal here has other heads.
  const passing = verdict.fault === undefined ? [positionOf(vault)] : []
  if (is_replayed) await replay({ journal, history, facts, state }, snapshot, passing)
  // A full garbage collection delays no request here; later it would.
  Bun.gc(true)
  return { journal, snapshots, history, facts, state, snapshot, verdict }
}

/** Read models ahead of the journal are of another disk: empty ones take their place. */
async function openReadModels(
  { data_dir, retention_days }: EngineConfig,
  key: Uint8Array,
  newest: JournalSeq,
): Promise<Pick<Loaded, 'history' | 'facts'>> {
  const dirs = { history: join(data_dir, 'history'), facts: join(data_dir, 'facts') }
  for (;;) {
    const history = await openHistory({ dir: dirs.history, key, retention_days })
    const facts = new PublicFacts(dirs.facts, key)
    if (history.watermark() <= newest && facts.watermark() <= newest) return { history, facts }
    await history.close()
    facts.close()
    for (const dir of Object.values(dirs)) rmSync(dir, { recursive: true })
  }
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
  const hashOf = (point: ChainPoint) => journaledHash(journal, point)
  const covered = await snapshots.newestValid(hashOf, reads_seq)
  const reaches = covered.snapshot !== undefined && covered.snapshot.seq + 1 >= journal.firstSeq()
  if (reaches || journal.firstSeq() === 1) return covered.snapshot
  return (await snapshots.newestValid(hashOf)).snapshot
}
