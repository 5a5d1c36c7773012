/** Records, strictly in order, the commitment level of landed batches and the batches that a fork reverted. */
import type { BatchStage } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { findSettled } from '../watch/settled'
import type { RelayedBatch, RelayedBatches } from './batches'
import type { RelayerArgs } from './relayer'

/** Batches whose transactions are read at the same time. */
const PARALLEL = 16

export class LandedReport {
  /** Lowest batch whose finality is not recorded; undefined until the first read of the chain. */
  private open: number | undefined

  constructor(
    readonly client: ChainClient,
    readonly args: Pick<RelayerArgs, 'outbox' | 'ownBatch'>,
    readonly batches: RelayedBatches,
  ) {}

  /** Whether every batch up to and including `landed` is recorded as finalized. */
  isComplete(landed: number): boolean {
    return this.open === landed + 1
  }

  /** @param finalized last batch at finalized @param landed last batch at confirmed @throws ChainUnavailable */
  async report(finalized: number, landed: number): Promise<void> {
    this.open ??= this.firstOpen(finalized)
    await this.rewind(landed)
    for (let batch_id = this.open; batch_id <= landed; batch_id += PARALLEL) {
      const last = Math.min(landed, batch_id + PARALLEL - 1)
      if (!(await this.reportSome(batch_id, last, finalized))) return
    }
  }

  /** Batches finalized while this venue was down still have their payload: they are recorded first. */
  private firstOpen(finalized: number): number {
    let open = finalized + 1
    while (open > 1 && this.args.outbox.payload(open - 1)) open -= 1
    return open
  }

  /** After a fork, reverted batches return to `submitted` and the same payloads are sent again, in order. */
  private async rewind(landed: number): Promise<void> {
    for (const batch of this.batches.after(landed)) {
      if (batch.stage !== 'confirmed') continue
      await this.batches.submitted(batch)
      batch.sent_slot = Number.NEGATIVE_INFINITY
    }
  }

  /** Reads in parallel, records in order. False when later batches must wait, so that stages stay in order. */
  private async reportSome(first: number, last: number, finalized: number): Promise<boolean> {
    const reads: { batch: RelayedBatch; found: Promise<BatchStage | undefined> }[] = []
    let all_ours = true
    for (let batch_id = first; batch_id <= last && all_ours; batch_id++) {
      const batch = this.batches.of(batch_id)
      const level = batch_id <= finalized ? 'finalized' : 'confirmed'
      // For a foreign batch the config watch decides.
      all_ours = batch.signed.length > 0 || this.args.outbox.payload(batch_id) !== undefined
      if (!all_ours || (level === 'confirmed' && batch.stage === 'confirmed')) continue
      this.args.ownBatch(batch_id)
      const signatures = batch.signed.map((signed) => signed.signature)
      reads.push({ batch, found: findSettled(this.client, batch_id, signatures, level) })
    }
    const stages = await Promise.all(reads.map(({ found }) => found))
    for (const [at, stage] of stages.entries()) {
      // The node's history lags behind the account.
      if (!stage) return false
      await this.record(reads[at]!.batch, stage)
    }
    return all_ours
  }

  private async record(batch: RelayedBatch, stage: BatchStage): Promise<void> {
    await this.args.outbox.recordStage(stage)
    batch.stage = 'confirmed'
    batch.landed = stage.signature
    if (stage.stage !== 'finalized') return
    this.batches.delete(batch.batch_id)
    this.open = batch.batch_id + 1
  }
}
