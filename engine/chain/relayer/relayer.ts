/** Lands settlement batches in order; only the batch id on chain decides whether one landed, never an RPC reply. */

import { LIMITS } from '../../limits'
import type { ChainSinkPort, OutboxPort, SettlementPayload } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { supervise } from '../client/health'
import { readVault, type VaultSnapshot } from '../client/read_vault'
import { backoffMs } from '../client/rpc_pool'
import { latestLifetime, priorityPrice } from '../client/sign_vault_instruction'
import {
  blockHeight,
  failureOf,
  isPayerShort,
  type TransactionFailure,
  transactionStatuses,
} from '../client/transaction_status'
import type { KnownStates } from '../watch/watch_leaves'
import { type RelayedBatch, RelayedBatches } from './batches'
import { LandedReport } from './report_landed'
import {
  type AheadTerms,
  AheadWindow,
  answerFailure,
  type Draft,
  isVerdict,
  SettlementSender,
} from './settlement_sender'

export type RelayerArgs = {
  outbox: OutboxPort
  sink: ChainSinkPort
  states: KnownStates
  epoch: number
  monotonicMs: () => number
  /** Called before the relayer acts on a batch of this venue. */
  ownBatch: (batch_id: number) => void
  /** Highest batch id that may be signed now. */
  batchMax: () => number
}

export class Relayer {
  private readonly batches: RelayedBatches
  private readonly report: LandedReport
  private readonly sender: SettlementSender
  private readonly window = new AheadWindow()
  private slot_confirmed = 0
  private slot_finalized = 0
  private waiting: { batch_id: number; ready: Promise<void> } | undefined
  private stopped = false

  constructor(
    readonly client: ChainClient,
    readonly args: RelayerArgs,
  ) {
    this.batches = new RelayedBatches(client, args)
    this.report = new LandedReport(client, args, this.batches)
    this.sender = new SettlementSender(client, args, this.batches)
  }

  /** Runs until the client closes, `stop` is called or the program rejects a batch permanently. */
  run(): Promise<void> {
    return supervise(this.client, async () => {
      if (!this.stopped) await this.step()
      return !this.stopped
    })
  }

  stop(): void {
    this.stopped = true
  }

  private async step(): Promise<void> {
    const { slot } = this.client.view.now()
    const [finalized, confirmed] = await Promise.all([
      readVault(this.client, 'finalized', this.slot_finalized),
      readVault(this.client, 'confirmed', this.slot_confirmed),
    ])
    this.slot_finalized = this.client.view.reached(finalized.slot)
    this.slot_confirmed = this.client.view.reached(confirmed.slot)
    const landed = confirmed.config.last_batch
    this.window.landed(landed)
    await this.report.report(finalized.config.last_batch, landed)
    const payload = this.args.outbox.payload(landed + 1)
    const halted = confirmed.config.paused || confirmed.config.frozen
    if (payload && !halted) await this.relay(payload, confirmed)
    else if (!payload && this.report.isComplete(landed)) return this.idle(landed + 1)
    // Confirmed state changes at most once per slot: poll once per slot.
    await this.client.view.after(slot)
  }

  /** Nothing in flight: waits for the next payload, or for the next poll of the chain. */
  private async idle(batch_id: number): Promise<void> {
    this.client.health.set('batch_delayed', false)
    if (this.waiting?.batch_id !== batch_id) {
      this.waiting = { batch_id, ready: this.args.outbox.waitForPayload(batch_id) }
    }
    await Promise.race([this.waiting.ready, this.client.rpc.sleep(4 * this.client.view.slotMs())])
    if (this.args.outbox.payload(batch_id) === undefined) this.waiting = undefined
  }

  /** Follows or sends the batch that is next to land, then sends batches ahead. */
  private async relay(payload: SettlementPayload, confirmed: VaultSnapshot): Promise<void> {
    const { client, args } = this
    const batch = this.batches.of(payload.batch_id)
    args.ownBatch(batch.batch_id)
    batch.next_since_ms ??= args.monotonicMs()
    const waited_ms = args.monotonicMs() - batch.next_since_ms
    client.health.set('batch_delayed', waited_ms > LIMITS.settlement_delay_slots_max * client.view.slotMs())
    if (batch.live) await this.follow(batch.batch_id)
    else if (batch.batch_id <= args.batchMax()) {
      const failure = await this.sender.sendNext(batch, payload, confirmed)
      if (failure) return this.refused(batch, failure, false)
    }
    if (batch.live && !this.stopped) await this.signAhead(batch, confirmed)
  }

  /** Reads the status of the live transactions: rebroadcasts them in order, or marks failed ones as not live. */
  private async follow(next: number): Promise<void> {
    const live = this.batches.liveFrom(next)
    const height = await blockHeight(this.client)
    const signatures = live.map(({ signed }) => signed.at(-1)!.signature)
    const statuses = await transactionStatuses(this.client, signatures)
    const newest = live.at(-1)!.batch_id
    let overtaken = false
    for (const [at, batch] of live.entries()) {
      const status = statuses[at]
      batch.executed = status?.error === null
      if (!status?.error) continue
      batch.live = false
      const failure = failureOf(status.error)
      if (!batch.ahead && batch.batch_id === next) return this.refused(batch, failure, true)
      // An anchor landed between them: nothing was reordered.
      if (failure.kind === 'program' && failure.name === 'journal_regressed') continue
      // Counts any other failure as a reordering; a permanent one shows when the batch is next to land.
      this.window.overtaken(batch.batch_id, newest)
      overtaken = true
    }
    await this.sendAgain(live, height, overtaken)
  }

  /** Rebroadcasts batches that no block contains yet; immediately if they were lost, because a later one was executed. */
  private async sendAgain(followed: readonly RelayedBatch[], height: number, lost: boolean): Promise<void> {
    for (const batch of followed) {
      // Later batches cannot land first; they are signed again after this one.
      if (!batch.live) return
      const { slot } = this.client.view.now()
      // Past this age it is signed again even if a node reports a lower height or a status.
      const overdue = slot - batch.signed_slot > LIMITS.transaction_life_slots_max
      if (batch.executed && !overdue) continue
      if (overdue || height > batch.signed.at(-1)!.last_valid_block_height) {
        // The next step reads the batch id again before anything is signed.
        batch.live = false
        return
      }
      const since = slot - batch.sent_slot
      if (since >= LIMITS.rebroadcast_slots || (lost && since > 0)) await this.sender.broadcast(batch)
    }
  }

  /**
   * Signs and sends batches behind the next one, as long as every predecessor is live. A batch that failed ahead is signed
   * again once its predecessor was executed, at most `batch_signings_ahead_max` times; after that when it is next to land.
   */
  private async signAhead(next: RelayedBatch, confirmed: VaultSnapshot): Promise<void> {
    const { args } = this
    let terms: AheadTerms | undefined
    const drafts: Draft[] = []
    const last = Math.min(next.batch_id + this.window.size, args.batchMax())
    for (let before = next; before.batch_id < last && !this.stopped; ) {
      const payload = args.outbox.payload(before.batch_id + 1)
      if (!payload) break
      const batch = this.batches.of(payload.batch_id)
      if (!batch.live) {
        const again = batch.signed.length > 0
        if (again && !terms && !before.executed) break
        if (batch.signed.length >= LIMITS.batch_signings_ahead_max) break
        args.ownBatch(batch.batch_id)
        terms ??= await this.aheadTerms()
        const draft = await this.sender.draftAhead(batch, payload, confirmed, terms)
        if (!draft) break
        drafts.push(draft)
        if (drafts.length >= LIMITS.batches_journaled_max) await this.sendDrafts(drafts.splice(0))
      }
      before = batch
    }
    await this.sendDrafts(drafts)
  }

  /** Sends nothing once this venue has to stop. */
  private async sendDrafts(drafts: Draft[]): Promise<void> {
    if (drafts.length > 0 && !this.stopped) await this.sender.send(drafts, true)
  }

  private async aheadTerms(): Promise<AheadTerms> {
    const [lifetime, price] = await Promise.all([latestLifetime(this.client), priorityPrice(this.client)])
    return { lifetime, price }
  }

  private async refused(batch: RelayedBatch, failure: TransactionFailure, landed: boolean): Promise<void> {
    batch.refusals += 1
    batch.verdicts = isVerdict(failure) ? batch.verdicts + 1 : 0
    const halt = answerFailure(failure, landed, batch.verdicts)
    if (isPayerShort(failure)) this.client.health.set('fee_payer_low', true)
    if (!halt) return this.client.rpc.sleep(backoffMs(batch.refusals))
    this.client.health.set(halt, true)
    this.args.sink.halted(halt)
    this.stopped = halt !== 'vault_paused'
  }
}
