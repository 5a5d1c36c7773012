/** The token account an exit pays to: the one named, or the payer's own, made when it is absent. */
import { decodeBase58 } from '../../protocol/base58'
import type { ChainAccess } from '../chain/chain_access'
import { readMintRecord } from '../chain/read_vault'
import { sendInstructions } from '../chain/send_instructions'
import { accountExists, createAssociatedAccount, ownAccount } from '../chain/token_account'
import type { CommandOptions } from './options'

export async function payoutAccount(
  chain: ChainAccess,
  options: CommandOptions,
  mint: string,
): Promise<Uint8Array> {
  if (options.optional('destination') !== undefined) return options.address('destination')
  const { token_program } = await readMintRecord(chain, options.text('program'), mint)
  const { bytes } = ownAccount(chain, mint, token_program)
  if (!(await accountExists(chain, bytes))) {
    const owner = decodeBase58(chain.payer.address, 32)!
    const create = createAssociatedAccount(chain, owner, decodeBase58(mint, 32)!, token_program)
    await sendInstructions(chain, [create], 'confirmed')
  }
  return bytes
}
