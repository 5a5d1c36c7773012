/** The relayer's view of the engine: durable payloads, stages it reports, and when every packed batch has landed. */
import type { Journal } from '../journal/contract'
import { payloadOf } from '../machine/settlement/payload'
import type { State } from '../machine/state/state'
import type { OutboxPort } from '../ports'
import type { Sequencer } from './sequencer'

// Tells when every packed settlement batch has reached the chain.

export class Landings {
  private waiting: (() => void)[] = []

  constructor(private readonly state: State) {}

  /** Resolves when no batch is left that the chain has not confirmed. */
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

// What the relayer asks of the engine: durable payloads, and the facts it must not forget before it acts.

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
