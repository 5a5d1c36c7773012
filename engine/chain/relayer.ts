/** Brings settlement batches to finality in order; what the chain's batch id says decides, never a reply. */
import { getBase58Decoder, getBase58Encoder, type Signature } from '@solana/kit'
import type { ChainSinkPort, OutboxPort, SettlementPayload } from '../ports'
import { broadcast } from './broadcast'
import type { ChainClient } from './chain_client'
import { findSettled } from './find_settled'
import type { KnownStates } from './known_states'
import { EXPIRY_SLOTS, REBROADCAST_SLOTS } from './land_instruction'
import { readVault, type VaultSnapshot } from './read_vault'
import { type RelayedBatch, resume } from './relayed_batch'
import { answerFailure, isVerdict } from './relayer_failure'
import { backoffMs } from './rpc_pool'
import { SettleBuilder } from './settle_instruction'
import { signVaultInstruction } from './sign_vault_instruction'
import { supervise } from './supervise'
import { failureOf, isPayerShort, type TransactionFailure } from './transaction_failure'
import { blockHeight, transactionStatuses } from './transaction_status'

/** A batch that is next to land for longer than this makes settlement degraded. */
const DELAYED_SLOTS = 300

export type RelayerArgs = {
  outbox: OutboxPort
  sink: ChainSinkPort
  states: KnownStates
  epoch: number
  monotonicMs: () => number
  /** Told before anything happens with a batch of this venue. */
  ownBatch: (batch_id: number) => void
}

export class Relayer {
  readonly #batches = new Map<number, RelayedBatch>()
  readonly #builder: SettleBuilder
  /** Lowest batch whose finality is not recorded; undefined until the first look at the chain. */
  #open: number | undefined
  #slot_confirmed = 0
  #slot_finalized = 0
  #waiting: { batch_id: number; ready: Promise<void> } | undefined
  #stopped = false

  constructor(
    readonly client: ChainClient,
    readonly args: RelayerArgs,
  ) {
    this.#builder = new SettleBuilder(client)
  }

  /** Runs until the client closes, `stop` is called or the program refuses for good. */
  run(): Promise<void> {
    return supervise(this.client, async () => {
      if (!this.#stopped) await this.#step()
      return !this.#stopped
    })
  }

  stop(): void {
    this.#stopped = true
  }

  async #step(): Promise<void> {
    const finalized = await readVault(this.client, 'finalized', this.#slot_finalized)
    const confirmed = await readVault(this.client, 'confirmed', this.#slot_confirmed)
    this.#slot_finalized = this.client.view.reached(finalized.slot)
    this.#slot_confirmed = this.client.view.reached(confirmed.slot)
    this.#open ??= this.#firstOpen(finalized.config.last_batch)
    const landed = confirmed.config.last_batch
    await this.#rewind(landed)
    await this.#report(finalized.config.last_batch, landed)
    const payload = this.args.outbox.payload(landed + 1)
    const halted = confirmed.config.paused || confirmed.config.frozen
    if (payload && !halted) await this.#relay(payload, confirmed)
    else if (!payload && this.#open === landed + 1) return this.#idle(landed + 1)
    await this.client.rpc.sleep(this.client.view.slotMs())
  }

  /** Nothing in flight: the next payload or, now and then, another look at the chain. */
  async #idle(batch_id: number): Promise<void> {
    this.client.health.set('batch_delayed', false)
    if (this.#waiting?.batch_id !== batch_id) {
      this.#waiting = { batch_id, ready: this.args.outbox.waitForPayload(batch_id) }
    }
    await Promise.race([this.#waiting.ready, this.client.rpc.sleep(4 * this.client.view.slotMs())])
    if (this.args.outbox.payload(batch_id) === undefined) this.#waiting = undefined
  }

  /** Batches that were finalized while this venue was down still have their payload: they are reported first. */
  #firstOpen(finalized: number): number {
    let open = finalized + 1
    while (open > 1 && this.args.outbox.payload(open - 1)) open -= 1
    return open
  }

  /** A fork took batches back: their stage returns to submitted and the same payloads go out again, in order. */
  async #rewind(landed: number): Promise<void> {
    for (const batch of this.#batches.values()) {
      if (batch.stage !== 'confirmed' || batch.batch_id <= landed) continue
      await this.#submitted(batch)
      batch.sent_slot = Number.NEGATIVE_INFINITY
    }
  }

  async #report(finalized: number, landed: number): Promise<void> {
    for (let batch_id = this.#open!; batch_id <= landed; batch_id++) {
      const batch = this.#batch(batch_id)
      // Not ours: the config watch decides what that means.
      if (batch.signed.length === 0 && !this.args.outbox.payload(batch_id)) return
      this.args.ownBatch(batch_id)
      const level = batch_id <= finalized ? 'finalized' : 'confirmed'
      if (level === 'confirmed' && batch.stage === 'confirmed') continue
      const signatures = batch.signed.map((signed) => signed.signature)
      const stage = await findSettled(this.client, batch_id, signatures, level)
      // The account is ahead of the node's history; later batches wait so that stages stay in order.
      if (!stage) return
      await this.args.outbox.recordStage(stage)
      batch.stage = 'confirmed'
      batch.landed = stage.signature
      if (level === 'confirmed') continue
      this.#batches.delete(batch_id)
      this.#open = batch_id + 1
    }
  }

  async #relay(payload: SettlementPayload, confirmed: VaultSnapshot): Promise<void> {
    const batch = this.#batch(payload.batch_id)
    this.args.ownBatch(batch.batch_id)
    const waited_ms = this.args.monotonicMs() - batch.since_ms
    this.client.health.set('batch_delayed', waited_ms > DELAYED_SLOTS * this.client.view.slotMs())
    if (batch.live) await this.#follow(batch)
    else await this.#sign(batch, payload, confirmed)
  }

  /** The newest transaction may still land: send the same bytes again, or learn that it is over. */
  async #follow(batch: RelayedBatch): Promise<void> {
    const newest = batch.signed.at(-1)!
    const height = await blockHeight(this.client)
    const signature = getBase58Decoder().decode(newest.signature) as Signature
    const [status] = await transactionStatuses(this.client, [signature])
    if (status?.error) {
      batch.live = false
      return this.#refused(batch, failureOf(status.error), true)
    }
    const { slot } = this.client.view.now()
    // Whatever heights and statuses a node tells: what did not land for so long is signed again.
    const overdue = slot - batch.signed_slot > EXPIRY_SLOTS
    if (status && !overdue) return
    if (height > newest.last_valid_block_height || overdue) {
      // The next step reads the batch id again before anything is signed.
      batch.live = false
      return
    }
    if (slot - batch.sent_slot >= REBROADCAST_SLOTS) await this.#send(batch)
  }

  async #sign(batch: RelayedBatch, payload: SettlementPayload, confirmed: VaultSnapshot): Promise<void> {
    const { outbox, states, epoch } = this.args
    const state = states.cite(confirmed, payload.leaf_count_min)
    // The leaf watch has not verified a usable state yet.
    if (!state) return
    const instruction = await this.#builder.build(payload, { epoch, state, ...outbox.head() })
    const signing = await signVaultInstruction(this.client, instruction, batch.signed.length)
    if ('failure' in signing) return this.#refused(batch, signing.failure, false)
    const { signature, wire, last_valid_block_height } = signing.signed
    const signed = {
      batch_id: batch.batch_id,
      signature: new Uint8Array(getBase58Encoder().encode(signature)),
      transaction: wire,
      last_valid_block_height,
    }
    await outbox.recordSigned(signed)
    batch.signed.push(signed)
    batch.live = true
    batch.verdicts = 0
    batch.signed_slot = this.client.view.now().slot
    await this.#send(batch)
    await this.#submitted(batch)
  }

  async #send(batch: RelayedBatch): Promise<void> {
    batch.sent_slot = this.client.view.now().slot
    await broadcast(this.client, batch.signed.at(-1)!.transaction)
  }

  async #refused(batch: RelayedBatch, failure: TransactionFailure, landed: boolean): Promise<void> {
    batch.refusals += 1
    batch.verdicts = isVerdict(failure) ? batch.verdicts + 1 : 0
    const halt = answerFailure(failure, landed, batch.verdicts)
    if (isPayerShort(failure)) this.client.health.set('fee_payer_low', true)
    if (!halt) return this.client.rpc.sleep(backoffMs(batch.refusals))
    this.client.health.set(halt, true)
    this.args.sink.halted(halt)
    this.#stopped = halt !== 'vault_paused'
  }

  async #submitted(batch: RelayedBatch): Promise<void> {
    const signature = batch.signed.at(-1)?.signature ?? batch.landed
    if (!signature) return
    const { slot } = this.client.view.now()
    await this.args.outbox.recordStage({
      batch_id: batch.batch_id,
      stage: 'submitted',
      signature,
      slot,
      payouts: [],
    })
    batch.stage = 'submitted'
  }

  #batch(batch_id: number): RelayedBatch {
    let batch = this.#batches.get(batch_id)
    if (!batch) {
      const { outbox, epoch, monotonicMs } = this.args
      const since = { ms: monotonicMs(), slot: this.client.view.now().slot }
      batch = resume(batch_id, outbox.signed(batch_id), epoch, since)
      this.#batches.set(batch_id, batch)
    }
    return batch
  }
}
