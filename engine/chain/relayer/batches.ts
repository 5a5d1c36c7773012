/** Tracks the settlement batches between packing and finality. */
import { decodeSettleData } from '../../../protocol/vault/settle'
import { LIMITS } from '../../limits'
import type { SignedBatch } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { transactionInstructions } from '../client/transaction_status'
import type { RelayerArgs } from './relayer'

export type RelayedBatch = {
  readonly batch_id: number
  /** The journaled transaction and every one signed in this run; oldest first. */
  readonly signed: SignedBatch[]
  /** True while the newest transaction may still land. */
  live: boolean
  /** A block holds its newest transaction, and it did not fail. */
  executed: boolean
  /** The newest transaction was signed before the batch was next to land, so its failure is no verdict. */
  ahead: boolean
  stage: 'built' | 'submitted' | 'confirmed'
  /** Signature of the landed transaction, once seen. */
  landed: Uint8Array | undefined
  /** Slot at which the newest transaction was signed. */
  signed_slot: number
  /** Slot of the last broadcast. */
  sent_slot: number
  /** Consecutive failed attempts to land it; sets the backoff. */
  refusals: number
  /** Consecutive rejections by the program, in a simulation or a block. */
  verdicts: number
  /** Monotonic milliseconds at which this batch became the next to land; undefined before. */
  next_since_ms: number | undefined
}

/** Epoch cited by a journaled transaction; undefined for bytes that are no settlement. */
export function epochOfSigned(signed: SignedBatch): number | undefined {
  for (const { data } of transactionInstructions(signed.transaction)) {
    const settle = decodeSettleData(data)
    if (settle) return settle.epoch
  }
  return undefined
}

/** A journaled transaction of an earlier epoch is not live: `open_epoch` fenced it, so it cannot succeed. */
function resume(
  batch_id: number,
  journaled: SignedBatch | undefined,
  epoch: number,
  slot: number,
): RelayedBatch {
  return {
    batch_id,
    signed: journaled ? [journaled] : [],
    live: journaled !== undefined && epochOfSigned(journaled) === epoch,
    executed: false,
    // The journal does not record how an earlier run signed it; `true` draws no verdict from a failure.
    ahead: journaled !== undefined,
    stage: 'built',
    landed: undefined,
    signed_slot: slot,
    sent_slot: Number.NEGATIVE_INFINITY,
    refusals: 0,
    verdicts: 0,
    next_since_ms: undefined,
  }
}

export class RelayedBatches {
  private readonly batches = new Map<number, RelayedBatch>()

  constructor(
    readonly client: ChainClient,
    readonly args: Pick<RelayerArgs, 'outbox' | 'epoch'>,
  ) {}

  /** On first use in this run, a batch resumes from its journaled transaction. */
  of(batch_id: number): RelayedBatch {
    let batch = this.batches.get(batch_id)
    if (!batch) {
      const { outbox, epoch } = this.args
      batch = resume(batch_id, outbox.signed(batch_id), epoch, this.client.view.now().slot)
      this.batches.set(batch_id, batch)
    }
    return batch
  }

  /** The run of live batches from `batch_id` on, ascending without gaps: each may land after the one before. */
  liveFrom(batch_id: number): RelayedBatch[] {
    const live: RelayedBatch[] = []
    for (let batch = this.of(batch_id); batch.live && live.length < LIMITS.rpc_statuses_max; ) {
      live.push(batch)
      batch = this.of(batch.batch_id + 1)
    }
    return live
  }

  /** Batches with a higher id than `batch_id`, ascending. */
  after(batch_id: number): RelayedBatch[] {
    const later = [...this.batches.values()].filter((batch) => batch.batch_id > batch_id)
    return later.sort((a, b) => a.batch_id - b.batch_id)
  }

  delete(batch_id: number): void {
    this.batches.delete(batch_id)
  }

  /** Records that the batch was sent, for the first time or again. */
  async submitted(batch: RelayedBatch): Promise<void> {
    const signature = batch.signed.at(-1)?.signature ?? batch.landed
    if (!signature) return
    const { batch_id } = batch
    const { slot } = this.client.view.now()
    await this.args.outbox.recordStage({ batch_id, stage: 'submitted', signature, slot, payouts: [] })
    batch.stage = 'submitted'
  }
}
