/** Takes snapshots while the venue runs, so that a boot replays little, and retires journal nobody needs. */

import { join } from 'node:path'
import type { EngineConfig } from '../config'
import { type History, HistoryBroken } from '../history/contract'
import type { Journal } from '../journal/contract'
import { listSegments } from '../journal/segment_files'
import type { SegmentHeader } from '../journal/segment_header'
import { openSnapshotStore } from '../journal/snapshot_store'
import { MS_PER_DAY, SNAPSHOT_PACE } from '../limits'
import type { ChainPort, ClockPort, KeysPort } from '../ports'
import type { PublicFacts } from '../reads/public_facts'
import { durableRecords } from './make_snapshot'
import {
  openSnapshotMaker,
  SnapshotDisagrees,
  type SnapshotMaker,
  type SnapshotPoint,
  type SnapshotSource,
} from './open_snapshot_maker'

// Which journal records are no longer needed: older than the retention and behind both kept snapshots.

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

// Takes snapshots while the venue runs, so that a boot replays little, and lets go of journal nobody needs.

type SnapshotPace = {
  /** Records since the last snapshot that make the next one due. */
  records: number
  /** Time after which it is due with fewer. */
  every_ms: number
  /** How often it is looked whether one is due. */
  look_ms: number
}
/** A round costs another core what the replay costs, so it rests this many times as long as it worked. */
const REST_FACTOR = 3

type Parts = {
  journal: Journal
  history: History
  facts: PublicFacts
  clock: ClockPort
  maker: SnapshotMaker
  /** Durable and fed to the read models; a group ends there. */
  seqDurable: () => number
  /** A replay that disagrees: what is acknowledged now would be lost to a boot that refuses to start. */
  fatal: (error: Error) => void
}

export class Snapshotting {
  /** Seq of the newest snapshot. */
  seq = 0
  failures = 0
  private timer: ReturnType<typeof setInterval> | undefined
  private round: Promise<void> | undefined
  private not_before_ms = 0
  private newest_ms: number
  private stopped = false

  constructor(
    private readonly parts: Parts,
    /** Seq of the snapshot the boot began from, 0 for none. */
    seq: number,
    private readonly pace: SnapshotPace = SNAPSHOT_PACE,
  ) {
    this.seq = seq
    this.newest_ms = parts.clock.monotonicMs()
  }

  begin(): void {
    this.timer = setInterval(() => this.look(), this.pace.look_ms)
    this.timer.unref()
    this.look()
  }

  /** Resolves when the snapshot that is being made is done; none is begun afterwards. */
  async stop(): Promise<void> {
    this.stopped = true
    clearInterval(this.timer)
    await this.round
  }

  /** Stops and ends the thread. */
  async close(): Promise<void> {
    await this.stop()
    this.parts.maker.close()
  }

  /** One snapshot of what is durable now, unless one is being made: then that one. */
  now(): Promise<void> {
    this.round ??= this.make().finally(() => {
      this.round = undefined
    })
    return this.round
  }

  private look(): void {
    const { clock, seqDurable } = this.parts
    const now_ms = clock.monotonicMs()
    if (this.stopped || this.round !== undefined || now_ms < this.not_before_ms) return
    const records = seqDurable() - this.seq
    const due = records >= this.pace.records || (records > 0 && now_ms - this.newest_ms >= this.pace.every_ms)
    if (due) void this.now()
  }

  private async make(): Promise<void> {
    const { clock, fatal } = this.parts
    const began_ms = clock.monotonicMs()
    try {
      await this.makeOne()
    } catch (error) {
      // Broken read models are rebuilt from the start at the next boot; anything else is tried again.
      if (error instanceof SnapshotDisagrees) fatal(error)
      else this.failures++
    }
    const ended_ms = clock.monotonicMs()
    this.not_before_ms = ended_ms + REST_FACTOR * (ended_ms - began_ms)
  }

  private async makeOne(): Promise<void> {
    const { journal, history, facts, maker, clock, seqDurable } = this.parts
    const { seq, head } = journal.head()
    if (seq !== seqDurable() || seq === this.seq) return
    // A snapshot may only stand where the read models have arrived.
    await history.flush()
    if (history.watermark() < seq) throw new HistoryBroken('the read models fell behind')
    facts.mark(seq)
    const retire_before = await maker.make({ seq, head, unix_ms: clock.unixMs() })
    this.seq = seq
    this.newest_ms = clock.monotonicMs()
    if (retire_before > journal.firstSeq()) await journal.retire(retire_before)
  }
}

// Joins the snapshot thread to a loaded state.

export function openSnapshotting(
  { data_dir, retention_days }: EngineConfig,
  { keys, chain, clock }: { keys: KeysPort; chain: ChainPort; clock: ClockPort },
  { journal, history, facts, replayed }: {
    journal: Journal
    history: History
    facts: PublicFacts
    /** Records replayed after the newest snapshot. */
    replayed: number
  },
  more: { seqDurable: () => number; fatal: (error: Error) => void },
): Snapshotting {
  const { genesis_hash, program_id, config_account } = chain
  const maker = openSnapshotMaker({
    journal_dir: join(data_dir, 'journal'),
    snapshots_dir: join(data_dir, 'snapshots'),
    journal_key: keys.journal_key,
    seeds: { tie_break_key: keys.tie_break_key, genesis_hash, program_id, config_account },
    retention_ms: retention_days * MS_PER_DAY,
  })
  return new Snapshotting({ journal, history, facts, clock, maker, ...more }, journal.head().seq - replayed)
}
