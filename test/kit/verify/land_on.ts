/** Lands one instruction on an embedded chain at once. */
import type { Instruction, KeyPairSigner } from '@solana/kit'
import { buildTransaction } from '../../../engine/chain/client/build_transaction'
import { encodeBase58 } from '../../../protocol/base58'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import { clientsOf } from '../chain/chain_folder'

/** @throws when the transaction fails. Visible to readers of confirmed state when it resolves. */
export async function landOn(
  chain: OpenedChain,
  payer: KeyPairSigner,
  instruction: Instruction,
): Promise<void> {
  const { value: lifetime } = await clientsOf(chain)
    .rpc.getLatestBlockhash({ commitment: 'processed' })
    .send()
  const { wire, signature } = await buildTransaction({
    payer,
    instructions: [instruction],
    lifetime,
    compute_units: 1_400_000,
    priority_fee_lamports: 0n,
  })
  chain.machine.enqueue(decodeTransaction(wire))
  chain.advance(3)
  const landed = chain.machine.store.transaction(encodeBase58(signature))
  if (landed?.error !== 'null') throw new Error(`did not land: ${landed?.error}`)
}
