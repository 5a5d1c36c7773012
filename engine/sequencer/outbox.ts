/** Serves durable payloads to the relayer, journals the stages it reports, and waits for batches to land. */
import type { Journal } from '../journal/contract'
import { payloadOf } from '../machine/settlement/payload'
import type { State } from '../machine/state/state'
import type { OutboxPort } from '../ports'
import type { Sequencer } from './sequencer'

export class Outbox implements OutboxPort {
  /** Newest batch whose hashed result is durable: only these may be signed. */
  private batch_durable: number
  private waiting: { batch_id: number; resolve: () => void }[] = []

  constructor(
    private readonly state: State,
    private readonly journal: Journal,
    private readonly sequencer: Sequencer,
  ) {
    this.batch_durable = state.settlement.last_hashed
  }

  payload(batch_id: number) {
    return batch_id <= this.batch_durable ? payloadOf(this.state, batch_id) : undefined
  }

  waitForPayload(batch_id: number): Promise<void> {
    if (batch_id <= this.batch_durable) return Promise.resolve()
    return new Promise((resolve) => {
      this.waiting.push({ batch_id, resolve })
    })
  }

  /** Called when the `hashed` record of a batch is durable. */
  hashedDurable(batch_id: number): void {
    this.batch_durable = batch_id
    const ready = this.waiting.filter((waiter) => waiter.batch_id <= batch_id)
    this.waiting = this.waiting.filter((waiter) => waiter.batch_id > batch_id)
    for (const waiter of ready) waiter.resolve()
  }

  signed(batch_id: number) {
    return this.state.settlement.batches.get(batch_id)?.signed
  }

  async recordSigned(signed: Parameters<OutboxPort['recordSigned']>[0]): Promise<void> {
    await this.sequencer.submit({ kind: 'batch_signed', signed })
  }

  async recordStage(stage: Parameters<OutboxPort['recordStage']>[0]): Promise<void> {
    await this.sequencer.submit({ kind: 'batch_stage', stage })
  }

  head() {
    return this.journal.head()
  }
}

/** Waits until every packed settlement batch has landed. */
export class Landings {
  private waiting: (() => void)[] = []

  constructor(private readonly state: State) {}

  /** Resolves when the chain has confirmed every batch. */
  done(): Promise<void> {
    if (this.landed()) return Promise.resolve()
    return new Promise((resolve) => {
      this.waiting.push(resolve)
    })
  }

  /** Call after each group of records. */
  check(): void {
    if (this.waiting.length === 0 || !this.landed()) return
    for (const resolve of this.waiting.splice(0)) resolve()
  }

  private landed(): boolean {
    for (const batch of this.state.settlement.batches.values()) {
      if (batch.progress !== 'confirmed' && batch.progress !== 'finalized') return false
    }
    return true
  }
}
