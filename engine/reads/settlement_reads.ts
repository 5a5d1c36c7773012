/** Health of settlement and what of it has landed on chain. */
import { Refusal } from '../../protocol/refusals'
import type { SettlementBatchStage, SettlementHealth } from '../../protocol/wire'
import { integerOf } from '../intake/form'
import type { ChainPort } from '../ports'
import type { LandedBatches } from './landed_batches'

export class SettlementReads {
  constructor(
    private readonly chain: ChainPort,
    private readonly landed: LandedBatches,
  ) {}

  health(): SettlementHealth {
    const last = this.landed.last()
    return {
      status: this.chain.health().settlement,
      last_batch: last?.batch ?? 0,
      last_signature: last?.signature ?? null,
      last_slot: last?.slot ?? null,
    }
  }

  /** Refuses `batch_unknown` for a batch that is not on chain. */
  batch(batch: number): SettlementBatchStage {
    const found = this.landed.batch(integerOf(batch, 'batch'))
    if (found === undefined) throw new Refusal('batch_unknown')
    return found
  }
}
