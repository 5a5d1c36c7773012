/** The settlement signer of a chain without a venue: opens epochs and lands batches that a test makes. */
import { type ChainAccess, openChainAccess, payerKey } from '../../client/chain/chain_access'
import { readVaultEvents } from '../../client/chain/read_history'
import { programBytes, readVaultState } from '../../client/chain/read_vault'
import { sendInstructions, toInstruction } from '../../client/chain/send_instructions'
import { compareBytes } from '../../protocol/bytes'
import { openEpochInstruction } from '../../protocol/vault/epochs'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { type SettleFields, settleInstruction } from '../../protocol/vault/settle'
import type { OpenedChain } from '../../sandbox/chain/open_embedded_chain'

type BatchParts = Partial<Pick<SettleFields, 'nullifiers' | 'outputs' | 'payouts'>>

export class SettlingSigner {
  private constructor(
    private readonly site: OpenedChain,
    private readonly chain: ChainAccess,
    private readonly program_id: string,
  ) {}

  /** Opens the vault's first epoch. @param seed of the key that genesis made the signer */
  static async open(site: OpenedChain, seed: Uint8Array, program_id: string): Promise<SettlingSigner> {
    const signer = new SettlingSigner(site, await openChainAccess(site.url, seed), program_id)
    const { config, tree } = await signer.vault()
    const { generation, epoch, last_batch, journal_seq, journal_head } = config
    await signer.send(
      openEpochInstruction({
        ...signer.keys(),
        ...{ epoch: epoch + 1, generation, last_batch, journal_seq, journal_head, restore: false },
        boot_nonce: new Uint8Array(16).fill(1),
        compose_hash: new Uint8Array(32),
        spent_root: tree.spent_root,
        cited_leaf_count: tree.leaf_count,
        cited_root: tree.root,
      }),
    )
    return signer
  }

  /** Lands the next batch; it is final when this returns. @returns the numbers of its payouts */
  async settle({ nullifiers = [], outputs = [], payouts = [] }: BatchParts): Promise<number[]> {
    const { config, tree } = await this.vault()
    const batch = config.last_batch + 1
    await this.send(
      settleInstruction({
        ...this.keys(),
        epoch: config.epoch,
        batch,
        cited_leaf_count: tree.leaf_count,
        cited_root: tree.root,
        journal_seq: config.journal_seq + 1,
        journal_head: new Uint8Array(32).fill(batch),
        nullifiers: nullifiers.toSorted(compareBytes),
        outputs,
        payouts,
      }),
    )
    for (const event of await readVaultEvents(this.chain, this.program_id))
      if (event.kind === 'settled' && event.batch === batch) return event.payouts.map(({ number }) => number)
    throw new Error('the batch is not in the history')
  }

  private vault() {
    return readVaultState(this.chain, this.program_id, 'confirmed')
  }
  private keys() {
    return { program: programBytes(this.program_id), settlement_signer: payerKey(this.chain) }
  }
  private async send(instruction: VaultInstruction): Promise<void> {
    await sendInstructions(this.chain, [toInstruction(instruction, [this.chain.payer])], 'confirmed')
    this.site.advance(10)
  }
}
