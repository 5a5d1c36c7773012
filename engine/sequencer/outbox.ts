/** Serves durable payloads to the relayer, journals the stages it reports, and waits for batches to land. */
import { nullifierOf } from '../../protocol/notes/notes'
import type { Journal } from '../journal/contract'
import { isRefundHeld } from '../machine/rules/settled'
import { openPayouts, payloadOf } from '../machine/settlement/payload'
import { indexOf, type Past, spentBatch } from '../machine/state/past'
import type { State } from '../machine/state/state'
import type { ExitRequest, HashPort, OutboxPort, PayoutStage, SpentProof } from '../ports'
import { exitsOf } from './chain_sink'
import type { Sequencer } from './sequencer'

export class Outbox implements OutboxPort {
  /** Newest batch whose hashed result is durable: only these may be signed. */
  private batch_durable: number
  /** Batches lose exits: none may be signed in two forms, so this process stops signing. */
  private ending = false
  private waiting: { batch_id: number; resolve: () => void }[] = []

  constructor(
    private readonly state: State,
    private readonly past: Past,
    private readonly journal: Journal,
    private readonly sequencer: Sequencer,
    private readonly hash: Pick<HashPort, 'spentPath'>,
    /** Ends the process, which starts again in a new epoch. */
    private readonly restart: (error: Error) => void,
  ) {
    this.batch_durable = state.settlement.last_hashed
  }

  payload(batch_id: number) {
    return batch_id <= this.batch_durable && !this.ending ? payloadOf(this.state, batch_id) : undefined
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

  async recordStage(stage: Parameters<OutboxPort['recordStage']>[0]): Promise<boolean> {
    if (stage.stage === 'finalized' && !this.isInTree(stage.batch_id)) return false
    await this.sequencer.submit({ kind: 'batch_stage', stage })
    return true
  }

  /** Who hears that a batch is final may ask for the paths of its notes at once. */
  private isInTree(batch_id: number): boolean {
    const outputs = this.state.settlement.batches.get(batch_id)?.hashed?.outputs ?? []
    return outputs.every(
      ({ commitment }) => indexOf(this.state, this.past, 'leaves', commitment) !== undefined,
    )
  }

  openPayouts() {
    return openPayouts(this.state)
  }

  async recordPayout(stage: PayoutStage): Promise<boolean> {
    const { number, refund_commitment } = stage
    if (!isRefundHeld(this.state, this.past, stage)) return false
    const payout = this.state.settlement.queued.get(number)
    const blinding = payout?.kind === 'withdrawal' ? payout.refund_blinding : undefined
    const refund = refund_commitment && blinding && nullifierOf(refund_commitment, blinding)
    const refund_spent = refund !== undefined && this.past.indexOf('nullifiers', refund) !== undefined
    await this.sequencer.submit({ kind: 'payout_stage', stage, refund_spent })
    return true
  }

  async spentProof(nullifier: Uint8Array, batch_count: number): Promise<SpentProof | undefined> {
    const spent = spentBatch(this.state, this.past, nullifier)
    const { last_hashed } = this.state.settlement
    if (spent === undefined || spent.batch_id > batch_count || batch_count > last_hashed) return undefined
    return { ...spent, ...(await this.hash.spentPath(spent.batch_id, batch_count)) }
  }

  async dropExits(batch_id: number, isDisproved: (request: ExitRequest) => boolean): Promise<void> {
    const { last_hashed, last_batch } = this.state.settlement
    if (last_hashed < last_batch) return
    const gone = exitsOf(this.state, (exit) => {
      return exit.settlement_batch === 0 || exit.settlement_batch >= batch_id
    }).filter((request) => request.stage === 'finalized' && isDisproved(request))
    if (gone.length === 0) return
    await this.restartAfter(() =>
      gone.map((request) =>
        this.sequencer.submit({ kind: 'exit_requested', request: { ...request, stage: 'vanished' } }),
      ),
    )
  }

  /** Ends the process, which starts again in a new epoch, once the changes of batches are durable. */
  async restartAfter(change: () => Promise<unknown>[]): Promise<void> {
    this.ending = true
    await Promise.all(change())
    this.restart(new Error('exits that were never requested left their batches'))
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
