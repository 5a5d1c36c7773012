/** `wallet faucet`: test money of an embedded chain, SOL for fees and tokens of a mint; no other cluster gives any. */
import { encodeBase58 } from '../../protocol/base58'
import { airdrop, mintTo } from '../chain/embedded_faucet'
import { ownAccount, tokenBalance } from '../chain/token_account'
import type { CommandOptions } from './options'

const FEE_LAMPORTS = 1_000_000_000n
const POLL_MS = 100

export async function askFaucet(options: CommandOptions): Promise<void> {
  const chain = await options.chain()
  const [mint, amount] = [encodeBase58(options.address('mint')), options.amount()]
  const account = ownAccount(chain, mint)
  const before = await tokenBalance(chain, account.bytes)
  await airdrop(chain, FEE_LAMPORTS)
  await mintTo(chain, mint, amount)
  while ((await tokenBalance(chain, account.bytes)) < before + amount) await Bun.sleep(POLL_MS)
  console.log(`payer        ${chain.payer.address}: ${FEE_LAMPORTS} lamports more`)
  console.log(`tokens       ${amount} units of ${mint} more, in ${account.text}`)
}
