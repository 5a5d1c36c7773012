/** `wallet deposit`: tokens of the payer become a note of a trading key. */
import { encodeBase58 } from '../../protocol/base58'
import { deposit } from '../chain/deposit'
import { saveWallet } from '../wallet/wallet_file'
import type { CommandOptions } from './options'

export async function depositTokens(options: CommandOptions): Promise<void> {
  const wallet = options.walletToChange()
  const keep = (): void => saveWallet(options.text('wallet'), wallet)
  const terms = {
    program_id: options.program(),
    mint: encodeBase58(options.address('mint')),
    amount: options.amount(),
    key_index: options.count('key', 0),
    keep,
  }
  const { note, signature } = await deposit(await options.chain(), wallet, terms).finally(keep)
  console.log(`note         ${note.commitment}`)
  console.log(`leaf         ${note.leaf_index}, final in ${signature}`)
}
