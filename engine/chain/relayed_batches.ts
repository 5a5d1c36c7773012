/** The batches a relayer has under way, by id. */
import type { ChainClient } from './chain_client'
import { type RelayedBatch, resume } from './relayed_batch'
import type { RelayerArgs } from './relayer'
import { STATUSES_MAX } from './transaction_status'

export class RelayedBatches {
  readonly #batches = new Map<number, RelayedBatch>()

  constructor(
    readonly client: ChainClient,
    readonly args: Pick<RelayerArgs, 'outbox' | 'epoch'>,
  ) {}

  /** A batch met for the first time in this run goes on from what the journal has of it. */
  of(batch_id: number): RelayedBatch {
    let batch = this.#batches.get(batch_id)
    if (!batch) {
      const { outbox, epoch } = this.args
      batch = resume(batch_id, outbox.signed(batch_id), epoch, this.client.view.now().slot)
      this.#batches.set(batch_id, batch)
    }
    return batch
  }

  /** From `batch_id` on, those whose newest transaction may land once the ones before have; ascending, without gaps. */
  liveFrom(batch_id: number): RelayedBatch[] {
    const live: RelayedBatch[] = []
    for (let batch = this.of(batch_id); batch.live && live.length < STATUSES_MAX; ) {
      live.push(batch)
      batch = this.of(batch.batch_id + 1)
    }
    return live
  }

  /** Those with a higher id than `batch_id`, ascending. */
  after(batch_id: number): RelayedBatch[] {
    const later = [...this.#batches.values()].filter((batch) => batch.batch_id > batch_id)
    return later.sort((a, b) => a.batch_id - b.batch_id)
  }

  delete(batch_id: number): void {
    this.#batches.delete(batch_id)
  }

  /** Tells the engine that the batch is on its way, for the first time or again. */
  async submitted(batch: RelayedBatch): Promise<void> {
    const signature = batch.signed.at(-1)?.signature ?? batch.landed
    if (!signature) return
    const { batch_id } = batch
    const { slot } = this.client.view.now()
    await this.args.outbox.recordStage({ batch_id, stage: 'submitted', signature, slot, payouts: [] })
    batch.stage = 'submitted'
  }
}
