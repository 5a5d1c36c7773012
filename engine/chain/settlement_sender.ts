/** Signs a settlement batch, journals what it signed, and only then sends it. */
import { getBase58Encoder } from '@solana/kit'
import type { SettlementPayload, SignedBatch } from '../ports'
import { broadcast } from './broadcast'
import { buildFitting } from './build_fitting'
import type { Lifetime, SignedTransaction } from './build_transaction'
import type { ChainClient } from './chain_client'
import type { NoteTreeState } from './known_states'
import { priorityFee } from './priority_fee'
import type { VaultSnapshot } from './read_vault'
import type { RelayedBatch } from './relayed_batch'
import type { RelayedBatches } from './relayed_batches'
import type { RelayerArgs } from './relayer'
import { SettleBuilder } from './settle_instruction'
import { settleUnits } from './settle_units'
import { signVaultInstruction } from './sign_vault_instruction'
import type { TransactionFailure } from './transaction_failure'
import { toInstruction } from './vault_instruction'

/** Read once for all that are signed ahead in one step; `price` in micro-lamports per unit. */
export type AheadTerms = { lifetime: Lifetime; price: bigint }
/** A transaction of a batch that is not journaled yet. */
export type Draft = { batch: RelayedBatch; transaction: SignedTransaction }

export class SettlementSender {
  readonly #builder: SettleBuilder

  constructor(
    readonly client: ChainClient,
    readonly args: Pick<RelayerArgs, 'outbox' | 'states' | 'epoch'>,
    readonly batches: RelayedBatches,
  ) {
    this.#builder = new SettleBuilder(client)
  }

  /**
   * The batch that is next to land: simulated, then sent. Resolves with why it cannot be, or with undefined when it was
   * sent or no state can be cited yet. @throws ChainUnavailable
   */
  async sendNext(
    batch: RelayedBatch,
    payload: SettlementPayload,
    confirmed: VaultSnapshot,
  ): Promise<TransactionFailure | undefined> {
    const state = this.args.states.cite(confirmed, payload.leaf_count_min)
    // The leaf watch has not verified a usable state yet.
    if (!state) return undefined
    const instruction = await this.#instruction(payload, state)
    const signing = await signVaultInstruction(this.client, instruction, batch.signed.length)
    if ('failure' in signing) return signing.failure
    await this.send([{ batch, transaction: signing.signed }], false)
    return undefined
  }

  /**
   * A batch whose predecessors are all on their way. It cannot be simulated yet, so it asks for units by formula, and it
   * cites only what stays known while they land. Undefined when it has to wait until it is next.
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
    const instructions = [toInstruction(await this.#instruction(payload, state), [client.signer])]
    const draft = { payer: client.signer, instructions, lifetime, compute_units, priority_fee_lamports }
    const built = await buildFitting(draft, client.transactions)
    return 'failure' in built ? undefined : { batch, transaction: built.signed }
  }

  /**
   * Journals them in one group, then sends one after the other: side by side they could overtake each other on the way.
   * @param ahead the first of them is not next to land
   */
  async send(drafts: readonly Draft[], ahead: boolean): Promise<void> {
    const signed = drafts.map(toSigned)
    await Promise.all(signed.map((one) => this.args.outbox.recordSigned(one)))
    const { slot } = this.client.view.now()
    for (const [at, { batch }] of drafts.entries()) {
      // What was signed for those behind it cites an earlier journal head than this: the program refuses that then.
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

  #instruction(payload: SettlementPayload, state: NoteTreeState) {
    const { outbox, epoch } = this.args
    return this.#builder.build(payload, { epoch, state, ...outbox.head() })
  }
}

function toSigned({ batch, transaction }: Draft): SignedBatch {
  const { signature, wire, last_valid_block_height } = transaction
  return {
    batch_id: batch.batch_id,
    signature: new Uint8Array(getBase58Encoder().encode(signature)),
    transaction: wire,
    last_valid_block_height,
  }
}
