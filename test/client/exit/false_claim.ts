/** Sends a claim for a spent note, which the client itself would not send, and opens nodes that misstate claims. */

import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { type ChainAccess, payerKey, toInstruction } from '../../../client/chain/chain_access'
import { readProofs } from '../../../client/chain/exit_note'
import { programBytes } from '../../../client/chain/read_vault'
import { sendInstructions } from '../../../client/chain/send_instructions'
import { ownAccount } from '../../../client/chain/token_account'
import { prepareClaim } from '../../../client/exit/prepare_exit'
import type { VaultProofs } from '../../../client/exit/vault_proofs'
import type { Wallet, WalletNote } from '../../../client/wallet/wallet'
import { deriveTradingKey } from '../../../protocol/notes/derive'
import { ACCOUNT_LAYOUTS, decodeEscapeClaim, type EscapeClaim } from '../../../protocol/vault/accounts'
import { LyingNode } from '../lying_node'

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
  const owner = await createKeyPairSignerFromPrivateKeyBytes(deriveTradingKey(wallet.seed, note.key_index))
  const instruction = toInstruction(prepareClaim(wallet, note, proofs, to), [owner, chain.payer])
  await sendInstructions(chain, [instruction], 'confirmed')
}

/** A node that shows each claim changed. */
export function misstating(
  truth_url: string,
  change: (claim: EscapeClaim) => Partial<EscapeClaim>,
): LyingNode {
  const lying = new LyingNode(truth_url)
  type Account = { data: [string, string] } | null
  const lie = (account: Account): Account => {
    const claim = account && decodeEscapeClaim(new Uint8Array(Buffer.from(account.data[0], 'base64')))
    if (!claim) return account
    const data = ACCOUNT_LAYOUTS.escape_claim.encode({ ...claim, ...change(claim) })
    return { ...account, data: [Buffer.from(data).toString('base64'), 'base64'] }
  }
  lying.lies = {
    getProgramAccounts: (told) =>
      (told as { pubkey: string; account: Account }[]).map(({ pubkey, account }) => ({
        pubkey,
        account: lie(account),
      })),
    getMultipleAccounts: (told) => {
      const answer = told as { value: Account[] }
      return { ...answer, value: answer.value.map(lie) }
    },
  }
  return lying
}
