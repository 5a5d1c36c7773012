/** Lands settlement batches in order; only the batch id that a quorum shows on chain decides whether one landed. */

import type { VaultErrorName } from '../../../protocol/vault/errors'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { settleInstruction, settleUnits } from '../../../protocol/vault/settle'
import { LIMITS } from '../../limits'
import type { BatchStage, OutboxPort, SettlementPayload, SignedBatch } from '../../ports'
import type { SignedTransaction } from '../client/build_transaction'
import type { ChainClient } from '../client/chain_client'
import { supervise } from '../client/health'
import { broadcast, signVaultInstruction, Terms } from '../client/land_instruction'
import { readVaults, type VaultSnapshot } from '../client/read_vault'
import { type Answer, backoffMs } from '../client/rpc_pool'
import {
  type AgreedStatus,
  agreedStatuses,
  isPayerShort,
  type TransactionFailure,
} from '../client/transaction_status'
import { agreedSettled } from '../watch/vault_events'
import type { ExitWatch } from '../watch/watch_exits'
import type { KnownStates, NoteTreeState } from '../watch/watch_leaves'
import type { Verdicts } from '../watch/watcher'
import { AheadWindow, type RelayedBatch, RelayedBatches } from './batch'

type RelayerArgs = {
  outbox: OutboxPort
  states: KnownStates
  epoch: number
  monotonicMs: () => number
  verdicts: Verdicts
  exits: Pick<ExitWatch, 'isDisproved'>
}

/** A transaction of a batch that is not journaled yet. */
type Draft = { batch: RelayedBatch; transaction: SignedTransaction; ahead: boolean }

/** Batches whose transactions are read at the same time. */
const PARALLEL = 16

/** The chain advanced between reading and landing, or config will show why: read, cite and sign again. */
const RETRIED: readonly (VaultErrorName | undefined)[] = [
  'batch_out_of_sequence',
  'unknown_state',
  'vault_frozen',
  'vault_paused',
]
/** Another instance settles this vault. */
const FORKED: readonly (VaultErrorName | undefined)[] = [
  'stale_epoch',
  'not_settlement_signer',
  'journal_conflict',
]

export class Relayer {
  private readonly batches: RelayedBatches
  private readonly window = new AheadWindow()
  private readonly seen = { confirmed: [] as number[], finalized: [] as number[] }
  /** Newest batch on chain at each level. */
  private landed: number | undefined
  private finalized: number | undefined
  /** Lowest batch whose finality is not recorded. */
  private open: number | undefined
  private newest_final: { signature: Uint8Array; slot: number } | undefined
  /** The oldest batch that no quorum shows as landed, and since when it is due. */
  private due: { batch_id: number; since_ms: number } | undefined
  /** The batch whose rejection stopped settlement. */
  private convicted: number | undefined
  private waiting: { batch_id: number; ready: Promise<void> } | undefined

  constructor(
    private readonly client: ChainClient,
    private readonly args: RelayerArgs,
  ) {
    this.batches = new RelayedBatches(args)
    const max_ms = () => LIMITS.settlement_delay_slots_max * client.view.slotMs()
    client.health.watch('batch_delayed', () => this.due !== undefined && this.waitedMs() > max_ms())
  }

  /** Runs until the client closes or another instance holds the vault. */
  run(): Promise<void> {
    return supervise(this.client, async () => {
      if (!this.args.verdicts.isDisowned()) await this.step()
      return !this.args.verdicts.isDisowned()
    })
  }

  /** The newest batch that became final in this run. */
  newestFinal(): { signature: Uint8Array; slot: number } | undefined {
    return this.newest_final
  }

  private async step(): Promise<void> {
    const { client, args } = this
    this.noteDue()
    const { slot } = client.view.now()
    const [finalized, confirmed] = await Promise.all([
      readVaults(client, 'finalized', this.seen.finalized),
      readVaults(client, 'confirmed', this.seen.confirmed),
    ])
    this.finalized = this.lastBatch(this.finalized, finalized)
    this.landed = this.lastBatch(this.landed, confirmed)
    const landed = this.landed
    if (this.finalized !== undefined && landed !== undefined) {
      this.window.landed(landed)
      if (this.convicted !== undefined && landed >= this.convicted) this.acquit()
      if (this.convicted !== undefined)
        await args.outbox.dropExits(this.convicted, (request) => args.exits.isDisproved(request))
      await this.report(this.finalized, landed)
      if (args.outbox.payload(landed + 1)) await this.relay(landed + 1, confirmed)
      else if (this.open === landed + 1) return this.idle(landed + 1)
    }
    // Confirmed state changes at most once per slot: poll once per slot.
    await client.view.after(slot)
  }

  /** It rises when a quorum shows more batches and falls when a quorum shows fewer. */
  private lastBatch(
    before: number | undefined,
    answers: readonly Answer<VaultSnapshot>[],
  ): number | undefined {
    const { rpc } = this.client
    const shown = answers.map(({ value }) => value.config.last_batch)
    const most = rpc.reached(shown)
    if (most === undefined || before === undefined || most > before) return most ?? before
    return Math.min(before, -rpc.reached(shown.map((batch) => -batch))!)
  }

  private noteDue(): void {
    let batch_id = this.open
    if (batch_id === undefined) return
    while (this.batches.of(batch_id).isConfirmed) batch_id += 1
    if (!this.args.outbox.payload(batch_id)) this.due = undefined
    else if (this.due?.batch_id !== batch_id) this.due = { batch_id, since_ms: this.args.monotonicMs() }
  }

  private waitedMs(): number {
    return this.due ? this.args.monotonicMs() - this.due.since_ms : 0
  }

  /** Nothing in flight: waits for the next payload, or for the next poll of the chain. */
  private async idle(batch_id: number): Promise<void> {
    if (this.waiting?.batch_id !== batch_id) {
      this.waiting = { batch_id, ready: this.args.outbox.waitForPayload(batch_id) }
    }
    await Promise.race([this.waiting.ready, this.client.rpc.sleep(4 * this.client.view.slotMs())])
    if (this.args.outbox.payload(batch_id) === undefined) this.waiting = undefined
  }

  /** Follows the batches in flight, then signs and sends waiting ones. */
  private async relay(next: number, confirmed: readonly Answer<VaultSnapshot>[]): Promise<void> {
    const { verdicts } = this.args
    verdicts.ownBatch(next)
    const open = this.batches.openFrom(next)
    if (open.length > 0 && !(await this.follow(open))) return
    const shown = confirmed.map(({ value }) => value)
    if (!verdicts.isHalted()) await this.sign(next, shown)
  }

  /** Reads the status of the transactions in flight and rebroadcasts them in order. False when the step ends here. */
  private async follow(open: readonly RelayedBatch[]): Promise<boolean> {
    const height = this.client.view.agreed('height')
    const statuses = await agreedStatuses(
      this.client,
      open.map(({ newest }) => newest!.signature),
    )
    const newest = open.at(-1)!.batch_id
    let overtaken = false
    for (const [at, batch] of open.entries()) {
      const status = statuses[at]!
      if (at === 0 && status.kind !== 'undecided' && status.kind !== 'failed') this.acquit()
      if (status.kind === 'executed') batch.executed()
      if (status.kind === 'unknown') batch.pending()
      if (status.kind !== 'failed') continue
      if (at === 0 && !batch.isAhead) {
        await this.refused(batch, status)
        return false
      }
      batch.refused()
      // Counts any other failure as a reordering; a permanent one shows when the batch is next to land.
      this.window.overtaken(batch.batch_id, newest)
      overtaken = true
    }
    if (this.args.verdicts.isHalted()) return false
    return this.sendAgain(open, height, overtaken)
  }

  /** Rebroadcasts batches that no block contains yet; immediately if they were lost, because a later one was executed. */
  private async sendAgain(
    followed: readonly RelayedBatch[],
    height: number,
    lost: boolean,
  ): Promise<boolean> {
    for (const batch of followed) {
      // Later batches cannot land first.
      if (batch.phase === 'unsigned') return true
      const { slot } = this.client.view.now()
      if (batch.isExpired(height)) {
        batch.expired(slot)
        return false
      }
      const since = batch.unsentFor(slot)
      if (batch.phase === 'live' && (since >= LIMITS.rebroadcast_slots || (lost && since > 0)))
        await this.send(batch)
    }
    return true
  }

  /**
   * Signs the next batch to land and those behind it, as long as every predecessor is in flight. A batch that failed ahead is
   * signed again once its predecessor was executed or signed, at most `batch_signings_ahead_max` times; after that when it is next.
   */
  private async sign(next: number, shown: readonly VaultSnapshot[]): Promise<void> {
    const { args, client } = this
    let terms: Terms | undefined
    const drafts: Draft[] = []
    let follows = false
    for (let batch_id = next; batch_id <= next + this.window.size; batch_id++) {
      const payload = args.outbox.payload(batch_id)
      const batch = this.batches.of(batch_id)
      if (!payload) break
      if (batch.phase !== 'unsigned') continue
      const ahead = batch_id > next
      const signings = batch.signatures().length
      const again = ahead && signings > 0
      if (again && !follows && this.batches.of(batch_id - 1).phase !== 'executed') break
      if (again && signings >= LIMITS.batch_signings_ahead_max) break
      const { leaf_count_min } = payload
      const state = ahead
        ? args.states.citeKept(shown, leaf_count_min)
        : args.states.cite(shown, leaf_count_min)
      if (!state || !batch.maySign(client.view.now().slot)) break
      args.verdicts.ownBatch(batch_id)
      terms ??= await Terms.read(client, signings)
      const limits = { compute_units: unitsOf(payload), waited_ms: ahead ? 0 : this.waitedMs() }
      const instruction = this.settle(payload, state)
      const built = await signVaultInstruction(client, instruction, terms, limits)
      if ('failure' in built) {
        client.health.set('transaction_failing', true)
        break
      }
      drafts.push({ batch, transaction: built.signed, ahead })
      // The next one failed ahead too, for want of its predecessor, which has landed since: it will land.
      follows = ahead || batch.isAhead
      if (drafts.length >= LIMITS.batches_journaled_max) await this.journalAndSend(drafts.splice(0))
    }
    await this.journalAndSend(drafts)
  }

  private settle(payload: SettlementPayload, state: NoteTreeState): VaultInstruction {
    const { vault, signer_key } = this.client
    const { outbox, epoch } = this.args
    const { seq: journal_seq, head: journal_head } = outbox.head()
    const { batch_id: batch, nullifiers, outputs, payouts } = payload
    return settleInstruction({
      program: vault.program,
      settlement_signer: signer_key,
      epoch,
      batch,
      cited_leaf_count: state.leaf_count,
      cited_root: state.root,
      journal_seq,
      journal_head,
      nullifiers,
      outputs,
      payouts: payouts.map(({ refund_inner: inner, ...payout }) => ({ ...payout, inner })),
    })
  }

  /** Journals the drafts in one group, then sends them one after the other: in parallel they could arrive out of order. */
  private async journalAndSend(drafts: readonly Draft[]): Promise<void> {
    // Nothing is sent once this venue has to stop.
    if (drafts.length === 0 || this.args.verdicts.isHalted()) return
    const signed = drafts.map(toSigned)
    await Promise.all(signed.map((one) => this.args.outbox.recordSigned(one)))
    for (const [at, { batch, ahead }] of drafts.entries()) batch.signed(signed[at]!, ahead)
    for (const { batch } of drafts) {
      await this.send(batch)
      await this.recordSubmitted(batch)
    }
  }

  /** Sends the newest transaction, for the first time or again. */
  private async send(batch: RelayedBatch): Promise<void> {
    batch.submitted(this.client.view.now().slot)
    await broadcast(this.client, batch.newest!.transaction)
  }

  private async recordSubmitted({ batch_id, newest, landed }: RelayedBatch): Promise<void> {
    const signature = newest?.signature ?? landed
    const { slot } = this.client.view.now()
    if (signature) await this.args.outbox.recordStage({ batch_id, stage: 'submitted', signature, slot })
  }

  /** The failure of the next batch is a verdict only if the program rejected it, for good and at finalized. */
  private async refused(
    batch: RelayedBatch,
    { failure, final }: AgreedStatus & { kind: 'failed' },
  ): Promise<void> {
    const { health, rpc } = this.client
    if (!isVerdict(failure)) {
      if (isPayerShort(failure)) health.set('fee_payer_low', true)
      else if (failure.kind === 'transient') health.set('transaction_failing', true)
      await rpc.sleep(backoffMs(batch.refused()))
      return
    }
    batch.rejected()
    if (!final) return
    this.convicted = batch.batch_id
    this.args.verdicts.standing(FORKED.includes(failure.name) ? 'forked' : 'program_error', true)
  }

  /** The quorum shows that the next batch was not rejected after all, or that it landed. */
  private acquit(): void {
    if (this.convicted === undefined) return
    this.convicted = undefined
    this.args.verdicts.standing('program_error', false)
  }

  /** Records, strictly in order, how far batches landed, and which a fork took back. */
  private async report(finalized: number, landed: number): Promise<void> {
    this.open ??= this.firstOpen(finalized)
    // The same payloads are sent again, in order.
    for (const batch of this.batches.after(landed)) {
      if (!batch.isConfirmed) continue
      await this.recordSubmitted(batch)
      batch.reorged()
    }
    for (let first = this.open; first <= landed; first += PARALLEL) {
      if (!(await this.reportSome(first, Math.min(landed, first + PARALLEL - 1), finalized))) return
    }
  }

  /** Batches finalized while this venue was down still have their payload: they are recorded first. */
  private firstOpen(finalized: number): number {
    let open = finalized + 1
    while (open > 1 && this.args.outbox.payload(open - 1)) open -= 1
    return open
  }

  /** Reads in parallel, records in order. False when later batches must wait, so that stages stay in order. */
  private async reportSome(first: number, last: number, finalized: number): Promise<boolean> {
    const reads: { batch: RelayedBatch; found: Promise<BatchStage | undefined> }[] = []
    let all_ours = true
    for (let batch_id = first; batch_id <= last && all_ours; batch_id++) {
      const batch = this.batches.of(batch_id)
      const level = batch_id <= finalized ? 'finalized' : 'confirmed'
      // For a foreign batch the verdict on config decides.
      all_ours = batch.newest !== undefined || this.args.outbox.payload(batch_id) !== undefined
      if (!all_ours || (level === 'confirmed' && batch.isConfirmed)) continue
      this.args.verdicts.ownBatch(batch_id)
      reads.push({ batch, found: agreedSettled(this.client, batch_id, batch.signatures(), level) })
    }
    const stages = await Promise.all(reads.map(({ found }) => found))
    for (const [at, stage] of stages.entries()) {
      // The providers' history lags behind the account.
      if (!stage) return false
      if (!(await this.record(reads[at]!.batch, stage))) return false
    }
    return all_ours
  }

  /** False while the own tree lacks leaves of a finalized batch. */
  private async record(batch: RelayedBatch, stage: BatchStage): Promise<boolean> {
    if (!(await this.args.outbox.recordStage(stage))) return false
    batch.confirmed(stage.signature)
    this.client.health.set('transaction_failing', false)
    if (stage.stage !== 'finalized') return true
    this.batches.finalized(batch.batch_id)
    this.open = batch.batch_id + 1
    this.newest_final = {
      signature: stage.signature,
      slot: stage.slot,
    }
    return true
  }
}

function unitsOf({ nullifiers, outputs, payouts }: SettlementPayload): number {
  const exits = payouts.filter(({ kind }) => kind === 'exit').length
  const counts = { nullifiers: nullifiers.length, outputs: outputs.length }
  return settleUnits({ ...counts, withdrawals: payouts.length - exits, exits })
}

function isVerdict(failure: TransactionFailure): failure is TransactionFailure & { kind: 'program' } {
  return failure.kind === 'program' && !RETRIED.includes(failure.name)
}

function toSigned({ batch, transaction }: Draft): SignedBatch {
  const { signature, wire, last_valid_block_height } = transaction
  return {
    batch_id: batch.batch_id,
    signature,
    transaction: wire,
    last_valid_block_height,
  }
}
