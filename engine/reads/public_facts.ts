/** Stores public facts that are not part of the state: landed batches, builds, statistics. */

import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import type { ChainPoint, JournalSeq } from '../../protocol/units'
import type { SettlementBatchStage, Transparency } from '../../protocol/wire/trading'
import type { Command, Settings } from '../commands'
import { isDiskError } from '../history/database'
import { LIMITS } from '../limits'
import type { AccountEventOut } from '../machine/state/outcome'
import type { BatchStage } from '../ports'
import { SealedRows } from './sealed_rows'
import { type Counting, isTraded, Statistics } from './statistics'

type Build = Transparency['builds'][number]

/** Every build that ran this venue, with its first slot. Entries are never deleted, so no build can be hidden later. */
class Builds {
  constructor(private readonly rows: SealedRows) {}

  /** Records the build of an opened epoch if it differs from the last one. */
  opened(build: Build): void {
    const builds = this.all()
    const last = builds.at(-1)
    const same = last?.compose_hash === build.compose_hash && last.tacit_version === build.tacit_version
    if (!same) this.rows.set('builds', [...builds, build])
  }

  all(): Build[] {
    return this.rows.get<Build[]>('builds') ?? []
  }
}

type Epoch = Transparency['epochs'][number]
type Finality = Transparency['settlement']['finality']
/** Batches that are signed and not final, with the time of the first signature; then final ones, oldest first. */
type Times = { signed: [batch: number, unix_ms: number][]; final: Finality }

/** The last openings of epochs, and how long the last settlement batches took from signature to finality. */
class Course {
  constructor(private readonly rows: SealedRows) {}

  epochs(): Epoch[] {
    return this.rows.get<Epoch[]>('epochs') ?? []
  }
  opened(epoch: Epoch): void {
    this.rows.set('epochs', [...this.epochs(), epoch].slice(-LIMITS.course_entries_max))
  }
  finality(): Finality {
    return this.times().final
  }
  signed(batch: number, unix_ms: number): void {
    const { signed, final } = this.times()
    if (signed.some(([one]) => one === batch)) return
    const more: Times['signed'] = [...signed, [batch, unix_ms]]
    this.rows.set('times', { signed: more.slice(-LIMITS.course_entries_max), final })
  }
  finalized({ batch_id, slot }: Pick<BatchStage, 'batch_id' | 'slot'>, unix_ms: number): void {
    const { signed, final } = this.times()
    const known = signed.find(([one]) => one === batch_id)
    if (known === undefined) return
    const entry = { batch: batch_id, slot, ms: Math.max(0, unix_ms - known[1]) }
    const others = signed.filter((one) => one !== known)
    this.rows.set('times', { signed: others, final: [...final, entry].slice(-LIMITS.course_entries_max) })
  }
  private times(): Times {
    return this.rows.get<Times>('times') ?? { signed: [], final: [] }
  }
}

/** Settlement batches on chain, by id. */
export class LandedBatches {
  private newest: { version: number; batch: SettlementBatchStage | undefined } | undefined

  constructor(private readonly rows: SealedRows) {}

  /** Records a durable stage. `submitted` after a later stage means that a fork dropped the batch. */
  record({ batch_id, stage, signature, slot }: Omit<BatchStage, 'payouts'>): void {
    const last = this.rows.get<number>('landed/last') ?? 0
    if (stage === 'submitted') {
      this.rows.delete(`landed/${batch_id}`)
      if (last >= batch_id) this.rows.set('landed/last', batch_id - 1)
      return
    }
    const landed: SettlementBatchStage = { batch: batch_id, signature: encodeBase58(signature), slot, stage }
    this.rows.set(`landed/${batch_id}`, landed)
    if (batch_id > last) this.rows.set('landed/last', batch_id)
  }

  batch(batch: number): SettlementBatchStage | undefined {
    return this.rows.get(`landed/${batch}`)
  }

  /** The same object until something changes. */
  last(): SettlementBatchStage | undefined {
    const { version } = this.rows
    if (this.newest?.version !== version)
      this.newest = { version, batch: this.batch(this.rows.get<number>('landed/last') ?? 0) }
    return this.newest.batch
  }
}

/** Commands that are facts themselves; fills are facts of any command's events. */
const FACT_COMMANDS: readonly Command['kind'][] = [
  'batch_signed',
  'batch_stage',
  'epoch_opened',
  'spent_restored',
  'closed',
  'decided',
]
/**
 * The journal up to which facts are stored, and in the same row the base of the next record's counts: none of them rolls back
 * alone.
 */
type Stored = { seq: number; head: string; batches: Transparency['batches']; counting: Counting }
/** Writes the rows that a record adds, within a transaction. */
type Fact = () => void
const START: Stored = {
  seq: 0,
  head: '00'.repeat(32),
  batches: { closed: 0, matched: 0, void: 0, since_slot: 0 },
  counting: { markets: {}, lost: -1 },
}

export class PublicFacts {
  readonly landed: LandedBatches
  readonly builds: Builds
  readonly course: Course
  readonly statistics: Statistics
  private readonly rows: SealedRows
  /** In memory: the disk is read at the opening only. */
  private stored: Stored
  /** Facts of the group whose end is not known yet. */
  private unsealed: Fact[] = []
  /** Groups that a full disk did not take, oldest first, and the number of their facts. */
  private waiting: { point: ChainPoint; facts: Fact[] }[] = []
  private facts_waiting = 0

  /** @param dir folder, created if absent. @param key 32 bytes */
  constructor(dir: string, key: Uint8Array) {
    this.rows = new SealedRows(dir, key)
    // Without the point, which a host can remove, every fact would be counted twice.
    const stored = this.rows.get<Stored>('point')
    if (stored === undefined) this.rows.clear()
    this.stored = stored ?? START
    this.landed = new LandedBatches(this.rows)
    this.builds = new Builds(this.rows)
    this.course = new Course(this.rows)
    this.statistics = new Statistics(this.rows, {
      read: () => this.stored.counting,
      write: (counting) => this.change({ counting }),
      together: (work) => {
        try {
          this.together(work)
          return true
        } catch (error) {
          if (!isDiskError(error)) throw error
          return false
        }
      },
      isStalled: () => this.isStalled(),
    })
  }

  /** Closes and their outcomes since the first opening that was recorded. */
  batches(): Transparency['batches'] {
    return this.stored.batches
  }

  /** The point of the journal up to which facts are stored; a journal without it is not the one of these facts. */
  point(): ChainPoint {
    const { seq, head } = this.stored
    return { seq, head: Uint8Array.fromHex(head) }
  }

  /** Journal seq up to which facts are stored; 0 = rebuild from the start. */
  watermark = (): JournalSeq => this.stored.seq

  /** The boot begins at a later record, of this time: the records between are not counted. */
  lose(unix_ms: number): void {
    this.statistics.lose(unix_ms)
    this.rows.set('point', this.stored)
  }

  /** Whether record() needs the events of such commands: only hashing emits fill.matched. */
  static wantsEvents(kind: Command['kind']): boolean {
    return kind === 'hashed'
  }

  /**
   * Records one durable command with its events and the current build, which `seal` stores; ignores seqs up to the
   * watermark.
   */
  record(
    seq: JournalSeq,
    command: Command,
    events: readonly AccountEventOut[],
    build: Settings['build'],
  ): void {
    const filled = isTraded(events)
    if (!filled && !FACT_COMMANDS.includes(command.kind)) return
    if (seq <= this.watermark()) return
    this.unsealed.push(() => {
      if (filled) this.statistics.record(events)
      this.recordSettlement(command)
      this.countBatch(command)
      if (command.kind === 'closed') {
        for (const { symbol, reference_ticks } of command.due)
          this.statistics.refer(symbol, reference_ticks, command.unix_ms)
      }
      if (command.kind === 'epoch_opened') {
        const { epoch, slot: from_slot } = command
        this.course.opened({ epoch, from_slot })
        if (build !== undefined) this.builds.opened({ ...build, from_slot })
      }
    })
  }

  /**
   * Ends a journal group: stores its facts, which belong to the journal with this head and to no other. Facts that a full disk
   * does not take are stored with later ones, a bounded number at a time: the caller blocks the main thread.
   * @throws Error when more than `facts_waiting_max` wait
   */
  seal(point: ChainPoint): void {
    this.endGroup(point)
    if (this.waiting.length === 0) return
    try {
      this.storeOldest()
    } catch (error) {
      if (!isDiskError(error) || this.facts_waiting > LIMITS.facts_waiting_max) throw error
    }
  }

  /**
   * Makes the facts durable as of `point`, as a boot from a snapshot of it requires; waiting facts are stored some in each turn
   * of the event loop. @throws SQLiteError when the disk is full
   */
  async mark(point: ChainPoint): Promise<void> {
    this.endGroup(point)
    for (; this.waiting.length > 0; await Bun.sleep(0)) this.storeOldest()
    this.store([], point)
    this.rows.sync()
  }

  private endGroup(point: ChainPoint): void {
    if (this.unsealed.length === 0) return
    this.waiting.push({ point, facts: this.unsealed })
    this.facts_waiting += this.unsealed.length
    this.unsealed = []
  }

  /** Stores the groups that wait, up to `facts_stored_max` facts and at least one group. */
  private storeOldest(): void {
    const facts: Fact[] = []
    let groups = 0
    for (const { facts: more } of this.waiting) {
      if (groups > 0 && facts.length + more.length > LIMITS.facts_stored_max) break
      for (const fact of more) facts.push(fact)
      groups++
    }
    this.store(facts, this.waiting[groups - 1]!.point)
    this.waiting = this.waiting.slice(groups)
    this.facts_waiting -= facts.length
  }

  private store(facts: readonly Fact[], { seq, head }: ChainPoint): void {
    this.together(() => {
      for (const write of facts) write()
      // Facts behind a point of the past are stored already: counted from there, they would count twice.
      if (seq > this.watermark()) this.change({ seq, head: toHex(head) })
    })
  }

  /** Stores the changes of `work`, all or nothing. */
  private together(work: () => void): void {
    const before = this.stored
    try {
      this.rows.together(() => {
        work()
        this.rows.set('point', this.stored)
      })
    } catch (error) {
      this.stored = before
      throw error
    }
  }

  private change(change: Partial<Stored>): void {
    this.stored = { ...this.stored, ...change }
  }

  /** Facts wait for the disk. */
  isStalled = (): boolean => this.waiting.length > 0

  private recordSettlement(command: Command): void {
    if (command.kind === 'batch_signed') this.course.signed(command.signed.batch_id, command.unix_ms)
    if (command.kind === 'batch_stage') {
      this.landed.record(command.stage)
      if (command.stage.stage === 'finalized') this.course.finalized(command.stage, command.unix_ms)
    }
    if (command.kind === 'spent_restored') {
      for (const batch of command.batches) this.landed.record({ ...batch, stage: 'finalized' })
    }
  }

  private countBatch(command: Command): void {
    const { batches } = this.stored
    const set = (more: Partial<Transparency['batches']>) => this.change({ batches: { ...batches, ...more } })
    if (command.kind === 'closed') set({ closed: batches.closed + 1 })
    else if (command.kind === 'decided' && command.outcome === 'void') set({ void: batches.void + 1 })
    else if (command.kind === 'decided') set({ matched: batches.matched + 1 })
    else if (command.kind === 'epoch_opened' && batches.since_slot === 0) set({ since_slot: command.slot })
  }

  close(): void {
    this.rows.close()
  }
}
