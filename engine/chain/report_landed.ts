/** Tells the engine, strictly in order, which batches landed and how final that is; and which a fork took back. */
import type { ChainClient } from './chain_client'
import { findSettled } from './find_settled'
import type { RelayedBatches } from './relayed_batches'
import type { RelayerArgs } from './relayer'

export class LandedReport {
  /** Lowest batch whose finality is not recorded; undefined until the first look at the chain. */
  #open: number | undefined

  constructor(
    readonly client: ChainClient,
    readonly args: Pick<RelayerArgs, 'outbox' | 'ownBatch'>,
    readonly batches: RelayedBatches,
  ) {}

  /** Everything up to and including `landed` is recorded as final. */
  isComplete(landed: number): boolean {
    return this.#open === landed + 1
  }

  /** @param finalized last batch of the finalized chain @param landed of the confirmed one @throws ChainUnavailable */
  async report(finalized: number, landed: number): Promise<void> {
    this.#open ??= this.#firstOpen(finalized)
    await this.#rewind(landed)
    for (let batch_id = this.#open; batch_id <= landed; batch_id++) {
      if (!(await this.#reportOne(batch_id, batch_id <= finalized ? 'finalized' : 'confirmed'))) return
    }
  }

  /** Batches that were finalized while this venue was down still have their payload: they are reported first. */
  #firstOpen(finalized: number): number {
    let open = finalized + 1
    while (open > 1 && this.args.outbox.payload(open - 1)) open -= 1
    return open
  }

  /** A fork took batches back: their stage returns to submitted and the same payloads go out again, in order. */
  async #rewind(landed: number): Promise<void> {
    for (const batch of this.batches.after(landed)) {
      if (batch.stage !== 'confirmed') continue
      await this.batches.submitted(batch)
      batch.sent_slot = Number.NEGATIVE_INFINITY
    }
  }

  /** False when later batches must wait, so that stages stay in order. */
  async #reportOne(batch_id: number, level: 'confirmed' | 'finalized'): Promise<boolean> {
    const batch = this.batches.of(batch_id)
    // Not ours: the config watch decides what that means.
    if (batch.signed.length === 0 && !this.args.outbox.payload(batch_id)) return false
    this.args.ownBatch(batch_id)
    if (level === 'confirmed' && batch.stage === 'confirmed') return true
    const signatures = batch.signed.map((signed) => signed.signature)
    const stage = await findSettled(this.client, batch_id, signatures, level)
    // The account is ahead of the node's history.
    if (!stage) return false
    await this.args.outbox.recordStage(stage)
    batch.stage = 'confirmed'
    batch.landed = stage.signature
    if (level === 'finalized') {
      this.batches.delete(batch_id)
      this.#open = batch_id + 1
    }
    return true
  }
}
