/** Deposits notes for every key of a trader on the embedded chain, and waits until the venue takes them. */
import { airdrop, deposit, mintTo } from '../../../client/chain/deposit'
import { ownAccount, tokenBalance } from '../../../client/chain/token_account'
import type { LoadTrader } from './load_trader'

const FEE_LAMPORTS = 5_000_000_000n
const POLL_MS = 50

/** `notes` of each mint and key. */
export async function fundTrader(
  trader: LoadTrader,
  program_id: string,
  amounts: ReadonlyMap<string, bigint>,
  notes: number,
): Promise<void> {
  const { chain, wallet } = trader
  await airdrop(chain, FEE_LAMPORTS)
  for (const [mint, amount] of amounts) {
    const total = amount * BigInt(trader.keys * notes)
    await mintTo(chain, mint, total)
    while ((await tokenBalance(chain, ownAccount(chain, mint).bytes)) < total) await Bun.sleep(POLL_MS)
  }
  const deposits: Promise<unknown>[] = []
  for (const [mint, amount] of amounts) {
    for (let key_index = 0; key_index < trader.keys; key_index++) {
      for (let i = 0; i < notes; i++)
        deposits.push(deposit(chain, wallet, { program_id, mint, amount, key_index }))
    }
  }
  await Promise.all(deposits)
  const unseen = new Set(wallet.state.notes.map((note) => note.commitment))
  while (unseen.size > 0) {
    for (const commitment of unseen) {
      const proof = await trader.client.inclusion({ commitment }).catch(() => undefined)
      if (proof?.usable === true) unseen.delete(commitment)
    }
    if (unseen.size > 0) await Bun.sleep(POLL_MS)
  }
}
