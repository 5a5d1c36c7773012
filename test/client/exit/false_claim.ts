/** Sends a claim for a spent note, which the client itself would not send. */
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { type ChainAccess, payerKey } from '../../../client/chain/chain_access'
import { readProofs } from '../../../client/chain/exit_note'
import { programBytes } from '../../../client/chain/read_vault'
import { sendInstructions, toInstruction } from '../../../client/chain/send_instructions'
import { ownAccount } from '../../../client/chain/token_account'
import { prepareClaim } from '../../../client/exit/prepare_exit'
import type { VaultProofs } from '../../../client/exit/vault_proofs'
import type { Wallet, WalletNote } from '../../../client/wallet/wallet'

export async function claimFalsely(
  chain: ChainAccess,
  program_id: string,
  wallet: Wallet,
  note: WalletNote,
): Promise<void> {
  const proofs: VaultProofs = Object.create(await readProofs(chain, program_id), {
    requireUnspent: { value: () => undefined },
  })
  const terms = { program: programBytes(program_id), payer: payerKey(chain) }
  const to = { ...terms, destination: ownAccount(chain, note.mint).bytes }
  const owner = await createKeyPairSignerFromPrivateKeyBytes(wallet.tradingSeed(note.key_index))
  const instruction = toInstruction(prepareClaim(wallet, note, proofs, to), [owner, chain.payer])
  await sendInstructions(chain, [instruction], 'confirmed')
}
