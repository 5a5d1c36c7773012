/** Traders receive test money and deposit it: each deposit is a note only its trading key can spend. */
import type { VenueClient } from '../api/venue_client'
import { deposit } from '../chain/deposit'
import { airdrop, mintTo } from '../chain/embedded_faucet'
import { ownAccount, tokenBalance } from '../chain/token_account'
import type { MintName } from './balances'
import { DemoFailed, fact, short, tokens } from './report'
import type { Trader } from './trader'

/** Lamports for a trader's own transactions. */
const FEE_LAMPORTS = 2_000_000_000n
const POLL_MS = 200
const WAIT_MS_MAX = 300_000

/** Tops the trader's token account up from the faucet of the embedded chain. */
export async function fund(trader: Trader, mint: MintName, amount: bigint): Promise<void> {
  await airdrop(trader.chain, FEE_LAMPORTS)
  const before = await tokenBalance(trader.chain, ownAccount(trader.chain, mint.mint).bytes)
  await mintTo(trader.chain, mint.mint, amount)
  const deadline = performance.now() + WAIT_MS_MAX
  while ((await tokenBalance(trader.chain, ownAccount(trader.chain, mint.mint).bytes)) < before + amount) {
    if (performance.now() > deadline) throw new DemoFailed('the faucet did not pay')
    await Bun.sleep(POLL_MS)
  }
}

export async function depositNote(
  trader: Trader,
  program_id: string,
  mint: MintName,
  amount: bigint,
): Promise<void> {
  const { note, signature } = await deposit(trader.chain, trader.wallet, {
    program_id,
    mint: mint.mint,
    amount,
    key_index: 0,
  })
  trader.save()
  fact(
    `${trader.name} deposits ${tokens(amount, mint.decimals)} ${mint.name}`,
    `leaf ${note.leaf_index}, ${short(signature)}`,
  )
}

/** Waits until the venue's finalized tree holds every note of the wallets. */
export async function untilUsable(client: VenueClient, traders: Trader[]): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX
  for (const trader of traders) {
    for (const note of trader.wallet.state.notes.filter((one) => one.state === 'free')) {
      for (;;) {
        const proof = await client.inclusion({ commitment: note.commitment }).catch(() => undefined)
        if (proof?.usable) break
        if (performance.now() > deadline) throw new DemoFailed('a note did not reach the finalized tree')
        await Bun.sleep(POLL_MS)
      }
    }
  }
}
