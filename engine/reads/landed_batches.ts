/** Settlement batches seen on chain, by id: public facts, derived from the journal's stage records. */
import { encodeBase58 } from '../../protocol/base58'
import type { SettlementBatchStage } from '../../protocol/wire'
import type { BatchStage } from '../ports'
import type { SealedRows } from './sealed_rows'

export class LandedBatches {
  constructor(private readonly rows: SealedRows) {}

  /** Takes a durable stage; a batch that a fork took back is no longer landed. */
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

  last(): SettlementBatchStage | undefined {
    return this.batch(this.rows.get<number>('landed/last') ?? 0)
  }
}
