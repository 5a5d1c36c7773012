/** Takes snapshots while the venue runs, so that a boot replays little, and retires unneeded journal segments. */

import { join } from 'node:path'
import type { ChainPoint, JournalSeq } from '../../protocol/units'
import type { Covered } from '../commands'
import type { EngineConfig } from '../config'
import { type History, HistoryBroken } from '../history/contract'
import type { Journal } from '../journal/contract'
import type { SnapshotStore } from '../journal/snapshot_store'
import { LIMITS, MS_PER_DAY, SNAPSHOT_PACE } from '../limits'
import { rowsToTake, rowsWaiting } from '../machine/state/past'
import type { State } from '../machine/state/state'
import type { ClockPort, KeysPort } from '../ports'
import type { PublicFacts } from '../reads/public_facts'
import type { Anchoring } from '../sequencer/anchoring'
import type { Sequencer } from '../sequencer/sequencer'
import { StoreDamaged } from '../stores/part_file'
import type { Stores } from '../stores/stores'

/** A snapshot is due after `records` records, after `every_ms` with fewer, and while it would take many rows. */
type SnapshotPace = {
  records: number
  every_ms: number
  /** Interval of the check. */
  look_ms: number
}
/**
 * A snapshot that takes more rows is due at once, and its thread has the priority of the history. At four times as many
 * orders are rejected.
 */
const LATE_ROWS = LIMITS.rows_waiting_max / 4
/** After a round that hung and failed. */
const REST_MS_MAX = 60_000

type Parts = {
  journal: Journal
  history: History
  facts: PublicFacts
  snapshots: Pick<SnapshotStore, 'prune'>
  stores: Stores
  clock: ClockPort
  maker: SnapshotMaker
  sequencer: Pick<Sequencer, 'seq_durable' | 'submit'>
  anchoring: Pick<Anchoring, 'coveredSeq' | 'dirty'>
  /** Of the state by the next snapshot. */
  rowsToTake: () => number
  /** Called when the replay disagrees or the stores are damaged: commands must no longer be acknowledged. */
  fatal: (error: Error) => void
}

export class Snapshotting {
  /** Rounds that failed since the boot. */
  failures = 0
  private timer: ReturnType<typeof setInterval> | undefined
  private round: Promise<void> | undefined
  private not_before_ms = 0
  private newest_ms: number
  private stopped = false
  /** The position on chain at the round before. */
  private covered_seq: JournalSeq = 0

  constructor(
    private readonly parts: Parts,
    /** The newest snapshot that counts. */
    public newest: JournaledSnapshot | undefined,
    /** Seq of the one before it, which a start takes if the newest is damaged. */
    private previous: JournalSeq | undefined,
    private readonly pace: SnapshotPace = SNAPSHOT_PACE,
  ) {
    this.newest_ms = parts.clock.monotonicMs()
  }

  /** Seqs of the snapshots that stay until the next round. */
  get kept(): JournalSeq[] {
    return [this.newest?.seq, this.previous].filter((seq) => seq !== undefined)
  }

  begin(): void {
    this.timer = setInterval(() => this.look(), this.pace.look_ms)
    this.timer.unref()
    this.look()
  }

  /** Starts no more snapshots and waits for the current one. */
  async stop(): Promise<void> {
    this.stopped = true
    clearInterval(this.timer)
    await this.round
  }

  /** Stops, then ends the thread. */
  async close(): Promise<void> {
    await this.stop()
    this.parts.maker.close()
  }

  /** Makes one snapshot of the durable state, or joins the one in progress. */
  now(): Promise<void> {
    this.round ??= this.make().finally(() => {
      this.round = undefined
    })
    return this.round
  }

  private look(): void {
    const { clock, sequencer } = this.parts
    const now_ms = clock.monotonicMs()
    if (this.stopped || this.round !== undefined) return
    const records = sequencer.seq_durable - (this.newest?.seq ?? 0)
    // One is the record of the newest snapshot.
    const due = records >= this.pace.records || (records > 1 && now_ms - this.newest_ms >= this.pace.every_ms)
    if ((due || this.isLate) && now_ms >= this.not_before_ms) void this.now()
  }

  private get isLate(): boolean {
    return this.parts.rowsToTake() > LATE_ROWS
  }

  private async make(): Promise<void> {
    const { clock, fatal } = this.parts
    const began_ms = clock.monotonicMs()
    let has_failed = false
    try {
      await this.makeOne()
    } catch (error) {
      // The next boot rebuilds broken read models; any other error is retried in the next round.
      if (error instanceof SnapshotDisagrees || error instanceof StoreDamaged) fatal(error)
      else this.failures++
      has_failed = true
    }
    // A round occupies a core with its replay, so one that failed is followed by a rest as long.
    const ended_ms = clock.monotonicMs()
    this.not_before_ms = has_failed ? ended_ms + Math.min(REST_MS_MAX, ended_ms - began_ms) : 0
  }

  private async makeOne(): Promise<void> {
    const { journal, history, facts, snapshots, stores, maker, clock, sequencer } = this.parts
    const { seq, head } = journal.head()
    if (seq !== sequencer.seq_durable || seq === this.newest?.seq) return
    // A boot from this snapshot feeds the read models only later records, so they must have reached it.
    await history.sync()
    if (history.watermark() < seq) throw new HistoryBroken('the read models fell behind')
    await facts.mark({ seq, head })
    const { newest } = this
    const point = { seq, head, unix_ms: clock.unixMs(), newest }
    const { retire_before, covered, made_of, ...hashes } = await maker.make(point, this.isLate)
    // The record drops the rows from the state, so lookups find them in the stores before.
    stores.follow(seq, hashes.catalogue_hash)
    await sequencer.submit({ kind: 'snapshot_taken', seq, ...hashes, covered })
    this.newest = { seq, ...hashes }
    this.previous = made_of
    this.newest_ms = clock.monotonicMs()
    await snapshots.prune(this.kept)
    stores.prune(this.kept)
    // The next start judges the tail from the final position, which is no older than the one confirmed a round ago.
    const before = Math.min(retire_before, this.covered_seq + 1)
    this.covered_seq = this.parts.anchoring.coveredSeq()
    // Nothing else anchors a paused venue, whose slots would fill the disk.
    if (retire_before > this.covered_seq + 1) this.parts.anchoring.dirty(seq)
    if (before > journal.firstSeq()) await journal.retire(before)
  }
}

type Loaded = {
  journal: Journal
  history: History
  facts: PublicFacts
  snapshots: SnapshotStore
  stores: Stores
  state: State
  newest: JournaledSnapshot | undefined
}

/** Opens the snapshot thread of a loaded engine; begin() starts the checks. */
export function openSnapshotting(
  { data_dir, retention_days }: EngineConfig,
  { keys, clock }: { keys: KeysPort; clock: ClockPort },
  { journal, history, facts, snapshots, stores, state, newest }: Loaded,
  more: Pick<Parts, 'anchoring' | 'fatal'> & { sequencer: Sequencer },
): Snapshotting {
  const maker = openSnapshotMaker({
    journal_dir: join(data_dir, 'journal'),
    snapshots_dir: join(data_dir, 'snapshots'),
    stores_dir: join(data_dir, 'stores'),
    journal_key: keys.journal_key,
    retention_ms: retention_days * MS_PER_DAY,
  })
  const files = { journal, history, facts, snapshots, stores }
  const parts = {
    ...files,
    clock,
    maker,
    rowsToTake: () => (rowsWaiting(state) > LATE_ROWS ? rowsToTake(state) : 0),
  }
  const previous = snapshots.seqs().find((seq) => seq < (newest?.seq ?? 0))
  return new Snapshotting({ ...parts, ...more }, newest, previous)
}

/** Folders of journal and snapshots, and the keys and parameters to read and replay them. */
export type SnapshotSource = {
  journal_dir: string
  snapshots_dir: string
  stores_dir: string
  journal_key: Uint8Array
  retention_ms: number
}
/** A durable place in the journal, and the newest snapshot that counts, from which the next one is made. */
export type SnapshotPoint = ChainPoint & { unix_ms: number; newest: JournaledSnapshot | undefined }
/** The journal's record of a snapshot. */
export type JournaledSnapshot = { seq: number; state_hash: Uint8Array; catalogue_hash: Uint8Array }
/** Records below `retire_before` are needed neither for a boot nor for retention; 0 for none. */
export type MadeSnapshot = {
  state_hash: Uint8Array
  catalogue_hash: Uint8Array
  covered: Covered
  /** Seq of the snapshot that it was made of, the one before the newest if that was gone; undefined if of the whole journal. */
  made_of: number | undefined
  retire_before: number
}

/** `is_late`: rows wait that only a snapshot takes from the state. */
export type Request = { source: SnapshotSource; point: SnapshotPoint; is_late: boolean }
export type Reply =
  | ({ op: 'made' } & MadeSnapshot)
  /** `ends` where only another start helps. */
  | { op: 'failed'; message: string; ends: 'disagrees' | 'damaged' | undefined }

/** The snapshot thread's replay differs from this process's decisions: the next boot would fail too. */
export class SnapshotDisagrees extends Error {
  override readonly name = 'SnapshotDisagrees'
}

type SnapshotMaker = {
  /**
   * One call at a time. The read models must have reached `point`. Resolves once the snapshot is on disk; it counts when
   * its hash is journaled.
   * Rejects with SnapshotDisagrees, or with an Error when the snapshot could not be written.
   */
  make(point: SnapshotPoint, is_late: boolean): Promise<MadeSnapshot>
  close(): void
}

type Waiting = { resolve: (made: MadeSnapshot) => void; reject: (error: Error) => void }

/** Each snapshot has its own thread: a second state lived there, and an idle thread keeps much of the memory. */
function openSnapshotMaker(source: SnapshotSource): SnapshotMaker {
  let worker: Worker | undefined
  let waiting: Waiting | undefined
  const settle = (how: (one: Waiting) => void) => {
    const one = waiting
    worker?.terminate()
    worker = undefined
    waiting = undefined
    if (one !== undefined) how(one)
  }
  return {
    make(point, is_late) {
      if (waiting !== undefined) throw new Error('a snapshot is already in progress')
      worker = new Worker(new URL('./snapshot_worker.ts', import.meta.url))
      worker.onmessage = ({ data }: MessageEvent<Reply>) => settle((one) => receive(data, one))
      worker.onerror = ({ message }) =>
        settle(({ reject }) => reject(new Error(`the snapshot thread failed: ${message}`)))
      worker.postMessage({ source, point, is_late } satisfies Request)
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject }
      })
    },
    close: () => settle(({ reject }) => reject(new Error('the snapshot thread was closed'))),
  }
}

function receive(reply: Reply, { resolve, reject }: Waiting): void {
  if (reply.op === 'made') resolve(reply)
  else if (reply.ends === 'disagrees') reject(new SnapshotDisagrees(reply.message))
  else if (reply.ends === 'damaged') reject(new StoreDamaged(reply.message))
  else reject(new Error(reply.message))
}
