/** Signs, journals and sends settlement batches; limits the batches ahead and classifies failures. */

import type { VaultErrorName } from '../../../protocol/vault/errors'
import { LIMITS } from '../../limits'
import type { SettlementPayload, SignedBatch } from '../../ports'
import {
  buildFitting,
  type Lifetime,
  type SignedTransaction,
  toInstruction,
} from '../client/build_transaction'
import type { ChainClient } from '../client/chain_client'
import { broadcast } from '../client/land_instruction'
import type { VaultSnapshot } from '../client/read_vault'
import { priorityFee, signVaultInstruction } from '../client/sign_vault_instruction'
import type { TransactionFailure } from '../client/transaction_status'
import type { NoteTreeState } from '../watch/watch_leaves'
import type { RelayedBatch, RelayedBatches } from './batches'
import type { RelayerArgs } from './relayer'
import { SettleBuilder, settleUnits } from './settle_instruction'

/**
 * Limits how many batches may be sent behind the next one. A batch executed before its predecessor costs the fees of all
 * batches behind it, so each reordering halves the window, and each run of batches that land in order doubles it again. On a
 * cluster that reorders, batches are sent one by one.
 */
export class AheadWindow {
  private window: number = LIMITS.batches_ahead_max
  private in_order = 0
  private newest_landed = 0
  /** Failures up to this batch belong to a reordering that is already counted. */
  private counted = 0

  get size(): number {
    return this.window
  }

  /** @param batch_id newest confirmed batch; lower after a fork, which is no reordering */
  landed(batch_id: number): void {
    if (batch_id <= this.newest_landed) return
    this.in_order += batch_id - this.newest_landed
    this.newest_landed = batch_id
    if (this.in_order < LIMITS.batches_in_order) return
    this.in_order = 0
    this.window = Math.min(LIMITS.batches_ahead_max, Math.max(1, 2 * this.window))
  }

  /** @param batch_id the failed batch @param newest newest batch in flight at that time */
  overtaken(batch_id: number, newest: number): void {
    if (batch_id <= this.counted) return
    this.counted = newest
    this.in_order = 0
    this.window = Math.floor(this.window / 2)
  }
}

/** The chain advanced between reading and landing: read, cite and sign again. */
const CITE_AGAIN: readonly (VaultErrorName | undefined)[] = [
  'batch_out_of_sequence',
  'unknown_state',
  'journal_regressed',
]
/** A simulation sees one node's state; its verdict counts after this many in a row. */
const SIMULATED_VERDICTS = 5

/** A permanent rejection: neither transient nor caused by an advanced chain. */
export function isVerdict(failure: TransactionFailure): failure is TransactionFailure & { kind: 'program' } {
  return failure.kind === 'program' && !CITE_AGAIN.includes(failure.name)
}

/**
 * The reason to stop, or undefined to retry.
 * @param landed the failure was executed in a block, not only simulated
 * @param verdicts consecutive verdicts on this batch, including this one
 */
export function answerFailure(
  failure: TransactionFailure,
  landed: boolean,
  verdicts: number,
): 'forked' | 'vault_frozen' | 'vault_paused' | 'program_error' | undefined {
  if (!isVerdict(failure)) return undefined
  if (!landed && verdicts < SIMULATED_VERDICTS) return undefined
  switch (failure.name) {
    case 'stale_epoch':
    case 'not_settlement_signer':
    case 'journal_conflict':
      return 'forked'
    case 'vault_frozen':
      return 'vault_frozen'
    case 'vault_paused':
      return 'vault_paused'
    default:
      return 'program_error'
  }
}

/** Read once for all batches signed ahead in one step; `price` in micro-lamports per unit. */
export type AheadTerms = { lifetime: Lifetime; price: bigint }
/** A transaction of a batch that is not journaled yet. */
export type Draft = { batch: RelayedBatch; transaction: SignedTransaction }

export class SettlementSender {
  private readonly builder: SettleBuilder

  constructor(
    readonly client: ChainClient,
    readonly args: Pick<RelayerArgs, 'outbox' | 'states' | 'epoch'>,
    readonly batches: RelayedBatches,
  ) {
    this.builder = new SettleBuilder(client)
  }

  /**
   * Simulates and sends the batch that is next to land. Resolves with the failure of the simulation, or with undefined when
   * the batch was sent or no state can be cited yet.
   * @throws ChainUnavailable
   */
  async sendNext(
    batch: RelayedBatch,
    payload: SettlementPayload,
    confirmed: VaultSnapshot,
  ): Promise<TransactionFailure | undefined> {
    const state = this.args.states.cite(confirmed, payload.leaf_count_min)
    // The leaf watch has not verified a usable state yet.
    if (!state) return undefined
    const instruction = await this.instruction(payload, state)
    const signing = await signVaultInstruction(this.client, instruction, batch.signed.length)
    if ('failure' in signing) return signing.failure
    await this.send([{ batch, transaction: signing.signed }], false)
    return undefined
  }

  /**
   * Signs a batch whose predecessors are all in flight. It cannot be simulated yet, so its compute limit comes from a formula,
   * and it cites only a state that stays known while they land. Undefined when it has to wait until it is next.
   */
  async draftAhead(
    batch: RelayedBatch,
    payload: SettlementPayload,
    confirmed: VaultSnapshot,
    { lifetime, price }: AheadTerms,
  ): Promise<Draft | undefined> {
    const { client } = this
    const compute_units = settleUnits(payload)
    const state = this.args.states.citeKept(confirmed, payload.leaf_count_min)
    if (compute_units === undefined || !state) return undefined
    const priority_fee_lamports = priorityFee(client.fees, price, compute_units, 0)
    const instructions = [toInstruction(await this.instruction(payload, state), [client.signer])]
    const draft = { payer: client.signer, instructions, lifetime, compute_units, priority_fee_lamports }
    const built = await buildFitting(draft, client.transactions)
    return 'failure' in built ? undefined : { batch, transaction: built.signed }
  }

  /**
   * Journals the drafts in one group, then sends them one after the other: in parallel they could arrive out of order.
   * @param ahead the first draft is not next to land
   */
  async send(drafts: readonly Draft[], ahead: boolean): Promise<void> {
    const signed = drafts.map(toSigned)
    await Promise.all(signed.map((one) => this.args.outbox.recordSigned(one)))
    const { slot } = this.client.view.now()
    for (const [at, { batch }] of drafts.entries()) {
      // Transactions of later batches cite an earlier journal head than this one: the program would reject them.
      for (const later of this.batches.after(batch.batch_id)) later.live = false
      batch.signed.push(signed[at]!)
      Object.assign(batch, { live: true, executed: false, ahead, verdicts: 0, signed_slot: slot })
    }
    for (const { batch } of drafts) {
      await this.broadcast(batch)
      await this.batches.submitted(batch)
    }
  }

  /** Sends the newest transaction, for the first time or again. */
  async broadcast(batch: RelayedBatch): Promise<void> {
    batch.sent_slot = this.client.view.now().slot
    await broadcast(this.client, batch.signed.at(-1)!.transaction)
  }

  private instruction(payload: SettlementPayload, state: NoteTreeState) {
    const { outbox, epoch } = this.args
    return this.builder.build(payload, { epoch, state, ...outbox.head() })
  }
}

function toSigned({ batch, transaction }: Draft): SignedBatch {
  const { wire, ...rest } = transaction
  return { batch_id: batch.batch_id, transaction: wire, ...rest }
}
