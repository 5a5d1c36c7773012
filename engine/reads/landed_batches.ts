/** Settlement batches seen on chain, by id: public facts, derived from the journal's stage records and rebuildable. */
import { Database } from 'bun:sqlite'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { encodeBase58 } from '../../protocol/base58'
import type { SettlementBatchStage } from '../../protocol/wire'
import type { BatchStage } from '../ports'

type Row = { batch: number; signature: string; slot: number; stage: 'confirmed' | 'finalized' }

export class LandedBatches {
  private readonly db: Database

  /** @param dir folder of the database; made if absent. */
  constructor(dir: string) {
    mkdirSync(dir, { recursive: true })
    this.db = new Database(join(dir, 'landed.sqlite'), { create: true, strict: true })
    this.db.run('PRAGMA journal_mode = WAL')
    this.db.run('PRAGMA synchronous = NORMAL')
    this.db.run(
      'CREATE TABLE IF NOT EXISTS landed (batch INTEGER PRIMARY KEY, signature TEXT, slot INTEGER, stage TEXT)',
    )
  }

  /** Takes a durable stage; a batch that a fork took back is no longer landed. */
  record(stage: BatchStage): void {
    if (stage.stage === 'submitted') {
      this.db.query('DELETE FROM landed WHERE batch = ?').run(stage.batch_id)
      return
    }
    this.db
      .query('INSERT OR REPLACE INTO landed (batch, signature, slot, stage) VALUES (?, ?, ?, ?)')
      .run(stage.batch_id, encodeBase58(stage.signature), stage.slot, stage.stage)
  }

  batch(batch: number): SettlementBatchStage | undefined {
    return this.db.query<Row, [number]>('SELECT * FROM landed WHERE batch = ?').get(batch) ?? undefined
  }

  last(): SettlementBatchStage | undefined {
    return this.db.query<Row, []>('SELECT * FROM landed ORDER BY batch DESC LIMIT 1').get() ?? undefined
  }

  close(): void {
    this.db.close()
  }
}
