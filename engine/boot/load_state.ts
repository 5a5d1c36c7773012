/** Opens the venue's folder and rebuilds the state: the newest snapshot that the read models cover, then a replay of records. */

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainPoint } from '../../protocol/units'
import type { Command } from '../commands'
import type { EngineConfig } from '../config'
import type { History } from '../history/contract'
import { openHistory } from '../history/open_history'
import type { Journal, JournalOptions, JournalRecord } from '../journal/contract'
import { openJournal } from '../journal/open_journal'
import { openSnapshotStore, type Snapshot, type SnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeState } from '../machine/codec/state_codec'
import { createState, type State } from '../machine/state/state'
import type { ChainPort, KeysPort, VaultConfig } from '../ports'
import { PublicFacts } from '../reads/public_facts'
import { type ReadParts, showDurable } from '../sequencer/durable_effects'
import { Replayer } from '../sequencer/replayer'
import { randomHashSeed } from '../sequencer/seeds'
import type { JournaledSnapshot } from '../snapshots/snapshotting'
import { StoreDamaged } from '../stores/part_file'
import { Stores, type StoresAt } from '../stores/stores'
import {
  isIn,
  isRestoreEffective,
  isUnused,
  journaledSnapshot,
  judgeJournal,
  positionOf,
  untilKnown,
} from './check_chain'

export type Loaded = {
  journal: Journal
  snapshots: SnapshotStore
  history: History
  facts: PublicFacts
  state: State
  /** Holds the rows that have left the state. */
  stores: Stores
  /** From which the replay began, without its bytes. */
  snapshot: (ChainPoint & JournaledSnapshot) | undefined
  /** The newest valid snapshot, the base of the next one: later than `snapshot` if the read models do not reach it. */
  newest: JournaledSnapshot | undefined
  /** The chain's verdict on the files. */
  verdict: Awaited<ReturnType<typeof judgeJournal>>
}

/**
 * Nothing of a journal that the chain contradicts is replayed: its author is unknown. A node of a cluster that is behind loads
 * the rest once the chain's position is in its journal (`follow.ts`).
 * @param vault as read before the journal is opened; the result has the one that was judged
 * @param options for tests: small segments and a failing disk
 * @throws JournalDamaged, JournalLocked, ReplayDisagrees, StoreDamaged: the venue must not start.
 */
export async function loadState(
  config: EngineConfig,
  ports: { keys: KeysPort; chain: ChainPort },
  vault: VaultConfig,
  options: Pick<JournalOptions, 'segment_bytes' | 'thread'> = {},
): Promise<Loaded & { vault: VaultConfig }> {
  const { data_dir } = config
  const { chain } = ports
  const key = ports.keys.journal_key
  const journal = await openJournal({ dir: join(data_dir, 'journal'), key, ...options })
  const snapshots = openSnapshotStore({ dir: join(data_dir, 'snapshots'), key })
  await snapshots.removeUnfinished()
  const { vault: now, verdict } = await untilKnown({ chain, config }, vault, (read) =>
    judgeJournal(read, chain, journal),
  )
  const judged = { journal, snapshots, verdict }
  return { ...(await loadJudged(config, ports, now, judged)), vault: now }
}

/** The state of a journal that `vault` has verified. @throws ReplayDisagrees, StoreDamaged */
export async function loadJudged(
  config: EngineConfig,
  { keys, chain }: { keys: KeysPort; chain: ChainPort },
  vault: VaultConfig,
  judged: Pick<Loaded, 'journal' | 'snapshots' | 'verdict'>,
): Promise<Loaded> {
  const { journal, snapshots, verdict } = judged
  const key = keys.journal_key
  const is_unused = verdict.fault !== undefined && (await isUnused(journal))
  // A journal that the chain contradicts may be the wrong one, and its read models those of the right one, unless it restores.
  const counts = verdict.fault === undefined || (is_unused && isRestoreEffective(vault, chain.view().unix_ms))
  const { history, facts } = await openReadModels(config, key, counts ? journal : undefined)
  const is_replayed = verdict.fault === undefined || is_unused
  // The replay feeds the read models, so it begins where they end, or before.
  const reads_seq = Math.min(history.watermark(), facts.watermark())
  const stores_at = { dir: join(config.data_dir, 'stores'), key }
  Stores.judgeAside(stores_at)
  const { start, newest } = is_replayed ? await startOf(journal, snapshots, stores_at, reads_seq) : {}
  const { snapshot } = start ?? {}
  const stores =
    snapshot === undefined
      ? Stores.empty(stores_at)
      : Stores.open(stores_at, snapshot.seq, snapshot.catalogue_hash)
  const orders = LIMITS.orders_live_max
  const seed = randomHashSeed()
  const state = start === undefined ? createState(seed, orders) : decodeState(start.blocks(), seed, orders)
  // Read models that the host put back, or lost, in a venue whose journal reaches back no further than its snapshots.
  if (snapshot !== undefined && facts.watermark() < snapshot.seq) facts.lose(state.unix_ms)
  // A chain that contradicts the journal here has other heads.
  const passing = verdict.fault === undefined ? [positionOf(vault)] : []
  // Where the chain contradicts the journal, a newer one may still be brought, and needs its files.
  const prune = () => verdict.fault === undefined && stores.prune(snapshots.seqs())
  // Parts of a rebuild that was killed hold space that this one may need.
  prune()
  try {
    if (is_replayed) await replay({ journal, history, facts, state, stores }, snapshot, passing)
  } catch (error) {
    stores.discard()
    throw error
  }
  prune()
  // A full garbage collection delays no request here; later it would.
  Bun.gc(true)
  return { ...judged, history, facts, state, stores, snapshot, newest }
}

/** Read models of a point that is not in `journal` are of another disk or a fork: empty ones take their place. */
async function openReadModels(
  { data_dir, retention_days }: EngineConfig,
  key: Uint8Array,
  journal: Journal | undefined,
): Promise<Pick<Loaded, 'history' | 'facts'>> {
  const dirs = { history: join(data_dir, 'history'), facts: join(data_dir, 'facts') }
  for (;;) {
    const history = await openHistory({ dir: dirs.history, key, retention_days })
    const facts = new PublicFacts(dirs.facts, key)
    const points = [history.opened, facts.point()]
    const judged = journal === undefined ? [] : await Promise.all(points.map((one) => isIn(journal, one)))
    if (!judged.includes(false)) return { history, facts }
    await history.close()
    facts.close()
    for (const dir of Object.values(dirs)) rmSync(dir, { recursive: true })
  }
}

/** The parts of a snapshot that can be sent to a thread, and its bytes. */
type Start = { snapshot: NonNullable<Loaded['snapshot']> } & Pick<Snapshot, 'blocks'>

/**
 * The snapshot to start from: one that the read models cover and whose stores are whole. Without one they are rebuilt from
 * the start of the journal; if that start is pruned, the newest such snapshot is used.
 * @throws StoreDamaged when there is none either
 */
export async function startOf(
  journal: Journal,
  snapshots: SnapshotStore,
  stores_at: StoresAt,
  reads_seq: number,
): Promise<{ start?: Start | undefined; newest?: JournaledSnapshot | undefined }> {
  const journaled = new Map<number, JournaledSnapshot>()
  const hashOf = async (point: ChainPoint) => {
    const one = await journaledSnapshot(journal, point)
    if (one === undefined || !Stores.areWhole(stores_at, one)) return undefined
    journaled.set(point.seq, one)
    return one.state_hash
  }
  const newest = async (seq_max?: number) => {
    const { snapshot } = await snapshots.newestValid(hashOf, seq_max)
    if (snapshot === undefined) return undefined
    const { blocks, ...one } = snapshot
    return { blocks, snapshot: { ...one, catalogue_hash: journaled.get(one.seq)!.catalogue_hash } }
  }
  const found = await newest()
  const is_covered = found === undefined || found.snapshot.seq <= reads_seq
  const covered = is_covered ? found : await newest(reads_seq)
  const reaches = covered !== undefined && covered.snapshot.seq + 1 >= journal.firstSeq()
  if (reaches || journal.firstSeq() === 1) return { start: covered, newest: found?.snapshot }
  if (found !== undefined) return { start: found, newest: found.snapshot }
  const where = `${stores_at.dir} and the snapshots beside it`
  throw new StoreDamaged(`nothing in ${where} leads to the journal's first record: bring both from a backup`)
}

type Parts = Pick<Loaded, 'journal' | 'history' | 'facts' | 'state' | 'stores'>

/** Executes records in order; events that the read models already have are not built. */
export class Replay {
  private readonly replayer: Replayer

  /** @param views of a node that serves reads: they show each replayed record */
  constructor(
    private readonly parts: Parts,
    private readonly views?: ReadParts,
  ) {
    const { history, facts, state, stores } = parts
    const history_seq = history.watermark()
    const facts_seq = facts.watermark()
    const wanted = (seq: number, command: Command) =>
      seq > history_seq || (seq > facts_seq && PublicFacts.wantsEvents(command.kind))
    this.replayer = new Replayer(state, stores, wanted)
  }

  /** The records of whole groups, which end at `end`. @throws ReplayDisagrees */
  async take(records: readonly JournalRecord[], end: ChainPoint): Promise<void> {
    const { history, facts, state } = this.parts
    for (const record of records) {
      const { seq } = record
      const replayed = this.replayer.apply(record)
      if (replayed === undefined) history.record(seq, [])
      else {
        const { command, events } = replayed
        showDurable(this.views ?? { history, facts, state }, { seq, command, events })
      }
    }
    history.seal(end)
    facts.seal(end)
    if (history.backlog() > LIMITS.history_lag_replay_events_max) await history.flush()
  }

  /** @throws ReplayDisagrees when the result of an auction is missing */
  end(): void {
    this.replayer.end(this.parts.journal.head().seq)
  }
}

/**
 * Executes every record after `from`; the chain must pass `passing`.
 * @throws ReplayDisagrees, JournalDamaged
 */
export async function replay(
  parts: Parts,
  from: ChainPoint | undefined,
  passing: readonly ChainPoint[],
  views?: ReadParts,
): Promise<void> {
  const one = new Replay(parts, views)
  const batches = parts.journal.readBatches((from?.seq ?? 0) + 1, from?.head, passing)
  for await (const { records, end } of batches) await one.take(records, end)
  one.end()
}
