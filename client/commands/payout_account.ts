/** The token account an exit pays to: the one named, or the payer's own, made when it is absent. */
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import type { ChainAccess } from '../chain/chain_access'
import { readMintRecord } from '../chain/read_vault'
import { requireLamports } from '../chain/require_funds'
import { sendInstructions } from '../chain/send_instructions'
import {
  accountExists,
  createAssociatedAccount,
  ownAccount,
  readTokenAccount,
  TOKEN_ACCOUNT_BYTES,
} from '../chain/token_account'
import { CommandRefused } from './command_refused'
import type { CommandOptions } from './options'

/** @throws CommandRefused for a destination the vault could not pay: its note would come back as another */
export async function payoutAccount(
  chain: ChainAccess,
  options: CommandOptions,
  mint: string,
): Promise<Uint8Array> {
  const { token_program } = await readMintRecord(chain, options.program(), mint)
  if (options.optional('destination') !== undefined) {
    const named = options.address('destination')
    const account = await readTokenAccount(chain, named, token_program)
    const whose = `--destination ${encodeBase58(named)}`
    const instead = "name one, or leave --destination out for the payer's own"
    if (account === undefined)
      throw new CommandRefused(`${whose} is not a token account of ${mint}: ${instead}`)
    if (!equalBytes(account.mint, decodeBase58(mint, 32)!))
      throw new CommandRefused(`${whose} holds ${encodeBase58(account.mint)}, not ${mint}: ${instead}`)
    if (account.frozen) throw new CommandRefused(`${whose} is frozen by the mint's authority: ${instead}`)
    return named
  }
  const { bytes } = ownAccount(chain, mint, token_program)
  if (!(await accountExists(chain, bytes))) {
    await requireLamports(chain, [TOKEN_ACCOUNT_BYTES])
    const owner = decodeBase58(chain.payer.address, 32)!
    const create = createAssociatedAccount(chain, owner, decodeBase58(mint, 32)!, token_program)
    await sendInstructions(chain, [create], 'confirmed')
  }
  return bytes
}
