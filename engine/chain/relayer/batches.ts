/** The settlement batches a relayer has under way. */
import { decodeSettleData } from '../../../protocol/vault/settle'
import { LIMITS } from '../../limits'
import type { SignedBatch } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { transactionInstructions } from '../client/transaction_status'
import type { RelayerArgs } from './relayer'

// One settlement batch on its way to finality, as the relayer remembers it.

export type RelayedBatch = {
  readonly batch_id: number
  /** Every transaction signed for it in this run, and the journaled one; oldest first. */
  readonly signed: SignedBatch[]
  /** True while the newest transaction may still land. */
  live: boolean
  /** A block holds its newest transaction, and it did not fail. */
  executed: boolean
  /** The newest transaction was signed before the batch was next to land: what becomes of it is no verdict. */
  ahead: boolean
  stage: 'built' | 'submitted' | 'confirmed'
  /** Signature that landed it, once seen. */
  landed: Uint8Array | undefined
  /** Slot at which the newest transaction was signed. */
  signed_slot: number
  /** Slot of the last broadcast. */
  sent_slot: number
  /** Signings refused in a row; spaces them out. */
  refusals: number
  /** How often in a row a simulation or a block said that the program refuses it. */
  verdicts: number
  /** Monotonic milliseconds at which this batch became the next to land; undefined before. */
  next_since_ms: number | undefined
}

/** Epoch that a journaled transaction cites; undefined for bytes that are no settlement. */
export function epochOfSigned(signed: SignedBatch): number | undefined {
  for (const { data } of transactionInstructions(signed.transaction)) {
    const settle = decodeSettleData(data)
    if (settle) return settle.epoch
  }
  return undefined
}

/** A journaled transaction of an earlier epoch was fenced by `open_epoch` and can never succeed. */
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
    // How an earlier run signed it is not journaled: the cautious answer.
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

// The batches a relayer has under way, by id.

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
    for (let batch = this.of(batch_id); batch.live && live.length < LIMITS.rpc_statuses_max; ) {
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
