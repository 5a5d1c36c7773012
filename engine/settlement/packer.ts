/** Opens settlement batches while a slot is applied and hands out their capacity. */
import { type State, settingsOf } from '../state/state'
import type { SettlementBatch } from './batch'

/** Batches are sealed when the slot that packed them is done: nothing joins them later. */
export class Packer {
  /** The open batch. */
  batch: SettlementBatch | undefined
  private readonly capacity: number

  constructor(private readonly state: State) {
    this.capacity = settingsOf(state).settlement_parts_max
  }

  /** Parts that still fit the open batch; 0 when none is open. */
  get room(): number {
    return this.batch === undefined ? 0 : this.capacity - this.batch.parts
  }

  /** Closes the open batch although it has room. */
  seal(): void {
    this.batch = undefined
  }

  /** The open batch with `parts` of its capacity taken; a new one when they do not fit. */
  take(parts: number): SettlementBatch {
    if (parts > this.capacity) throw new Error('a part exceeds the capacity of a settlement batch')
    if (this.batch === undefined || this.room < parts) this.batch = openBatch(this.state)
    this.batch.parts += parts
    return this.batch
  }
}

function openBatch(state: State): SettlementBatch {
  const { settlement } = state
  settlement.last_batch += 1
  const batch: SettlementBatch = {
    batch_id: settlement.last_batch,
    slot: state.slot,
    generation: settingsOf(state).generation,
    inputs: [],
    outputs: [],
    fills: [],
    payouts: [],
    reshapes: [],
    fees: state.mints.map(() => 0n),
    leaf_count_min: settlement.leaf_count_min,
    parts: 0,
    hashed: undefined,
    progress: 'built',
    signature: undefined,
    signed: undefined,
  }
  settlement.batches.set(batch.batch_id, batch)
  return batch
}
