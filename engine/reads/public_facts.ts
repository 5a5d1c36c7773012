/** The derived facts that need memory beyond the state: landed batches, builds and daily statistics, fed once per record. */
import type { Command, Settings } from '../commands'
import type { AccountEventOut } from '../state/outcome'
import { Builds } from './builds'
import { DailyStatistics } from './daily_statistics'
import { LandedBatches } from './landed_batches'
import { SealedRows } from './sealed_rows'

const KEPT: readonly Command['kind'][] = ['batch_stage', 'epoch_opened', 'spent_restored']

export class PublicFacts {
  readonly landed: LandedBatches
  readonly builds: Builds
  readonly statistics: DailyStatistics
  private readonly rows: SealedRows

  /** @param dir folder, made if absent. @param key 32 bytes. */
  constructor(dir: string, key: Uint8Array) {
    this.rows = new SealedRows(dir, key)
    this.landed = new LandedBatches(this.rows)
    this.builds = new Builds(this.rows)
    this.statistics = new DailyStatistics(this.rows)
  }

  /** Journal seq up to which everything is contained; 0 = rebuild from the start. */
  watermark(): number {
    return this.rows.get<number>('watermark') ?? 0
  }

  /** Whether something here may be made of the events of such commands. */
  static wantsEvents(kind: Command['kind']): boolean {
    return kind === 'hashed'
  }

  /** Takes one durable command with its events and the build in force; what the watermark covers is ignored. */
  record(seq: number, command: Command, events: readonly AccountEventOut[], build: Settings['build']): void {
    const filled = DailyStatistics.concerns(events)
    if (!filled && !KEPT.includes(command.kind)) return
    if (seq <= this.watermark()) return
    this.rows.together(() => {
      if (filled) this.statistics.record(events)
      if (command.kind === 'batch_stage') this.landed.record(command.stage)
      if (command.kind === 'spent_restored') {
        for (const batch of command.batches) this.landed.record({ ...batch, stage: 'finalized' })
      }
      if (command.kind === 'epoch_opened' && build !== undefined) {
        this.builds.opened({ ...build, from_slot: command.slot })
      }
      this.rows.set('watermark', seq)
    })
  }

  /** Everything up to `seq` was fed; from here on a snapshot of `seq` may be started from. */
  mark(seq: number): void {
    this.rows.set('watermark', seq)
    this.rows.sync()
  }

  close(): void {
    this.rows.close()
  }
}
