/** With the venue on, a batch serves an exit request and the venue pays it: its order ends, the tokens or a refund come. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { deposit, mintTo } from '../../../client/chain/deposit'
import { readProofs, requestExit } from '../../../client/chain/exit_note'
import { readVaultHistory } from '../../../client/chain/read_history'
import { readExitRequest } from '../../../client/chain/read_vault'
import { TransactionFailed } from '../../../client/chain/send_instructions'
import { ownAccount, tokenBalance } from '../../../client/chain/token_account'
import { nullifierOfNote } from '../../../client/exit/prepare_exit'
import { markSpent } from '../../../client/wallet/absorb_recovered'
import { recoverWallet } from '../../../client/wallet/recover'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { toHex } from '../../../protocol/bytes'
import { USDC } from '../../../sandbox/environment'
import { EmbeddedSite } from '../../kit/venue/embedded_site'
import { bytes } from '../../kit/venue/memory_chain'
import { WalletTrader } from '../wallet_trader'

const LIMITS = { keys: 1, deposits: 10, commands: 10 }
const site = new EmbeddedSite()
let trader: WalletTrader
let paid: WalletNote
let unpayable: WalletNote

beforeAll(async () => {
  await site.openChain()
  await site.openVenue()
  trader = await WalletTrader.open(site, 'ada')
  const notes = await trader.deposit(USDC, 0, 150_000_000n, 7_000_000n)
  ;[paid, unpayable] = notes as [WalletNote, WalletNote]
}, 120_000)
afterAll(() => site.remove())

/** Requests, and resolves once the payout has left the queue and the venue has returned the bond. */
async function left(note: WalletNote, destination: Uint8Array): Promise<void> {
  const { chain, wallet, program_id } = trader
  for (let is_sent = false; !is_sent; ) {
    const proofs = await readProofs(chain, program_id)
    try {
      await requestExit(chain, wallet, note, { program_id, destination, proofs })
      is_sent = true
    } catch (error) {
      // A batch landed between both: the message says to run it again.
      if (!(error instanceof TransactionFailed && error.facts['refusal'] === 'unknown_state')) throw error
    }
  }
  const nullifier = nullifierOfNote(note)
  const stage = async () =>
    (await readVaultHistory(chain, program_id)).exits.get(toHex(nullifier))?.stage ?? ''
  while (!['paid', 'refunded'].includes(await stage())) await Bun.sleep(20)
  while ((await readExitRequest(chain, program_id, nullifier)) !== undefined) await Bun.sleep(20)
}

test('a note that backs a live order leaves: the order is cancelled, the whole note is paid', async () => {
  const { chain, wallet } = trader
  const placed = await trader.place(paid, { side: 'buy', amount: 1_000_000_000n, price_limit: 90_000_000n })
  if (!('order_id' in placed)) throw new Error(placed.code)
  const account = ownAccount(chain, USDC).bytes
  const before = await tokenBalance(chain, account)
  await left(paid, account)
  expect((await tokenBalance(chain, account)) - before).toBe(150_000_000n)
  await trader.sync()
  const order = await site.venue.order('ada', placed.order_id)
  expect(order).toMatchObject({ status: 'cancelled', reason: 'note_exited' })
  expect(wallet.order(placed.order_id)?.open).toBe(false)
  expect(paid.state).toBe('pending')
}, 120_000)

test('an exit to nowhere comes back as a note that recovery finds', async () => {
  const { chain, wallet, program_id } = trader
  await left(unpayable, bytes(32))
  await trader.sync()
  site.chain.advance(10)
  const { history, vault } = await readProofs(chain, program_id)
  // Two deposits sent at once land in either order.
  const byLeaf = [paid, unpayable].sort((a, b) => a.leaf_index! - b.leaf_index!)
  const marked = markSpent(wallet, history).sort((a, b) => a.leaf_index! - b.leaf_index!)
  expect(marked).toEqual(byLeaf)
  expect(markSpent(wallet, history)).toEqual([])
  const recovered = recoverWallet(wallet.seed, history, vault.config.generation, LIMITS)
  const [refund] = recovered.freeNotes(USDC)
  expect(refund).toMatchObject({ amount: '7000000', origin: 'refund', key_index: 0 })
  expect(recovered.balance(USDC)).toBe(7_000_000n)
  expect(recovered.counters(0).deposits).toBe(wallet.counters(0).deposits)
  expect(site.fatal).toEqual([])
}, 120_000)

test('a deposit of a second copy of the seed takes the blinding of a refund: both notes are there, and both leave', async () => {
  const { chain, wallet, program_id } = trader
  const [leaving] = await trader.deposit(USDC, 0, 9_000_000n)
  const copy = new Wallet(wallet.seed, structuredClone(wallet.state))
  const account = ownAccount(chain, USDC).bytes
  const before = await tokenBalance(chain, account)
  await mintTo(chain, USDC, 4_000_000n)
  while ((await tokenBalance(chain, account)) < before + 4_000_000n) await Bun.sleep(5)
  const [{ note }] = await Promise.all([
    deposit(chain, copy, { program_id, mint: USDC, amount: 4_000_000n, key_index: 0 }),
    left(leaving!, bytes(32)),
  ])
  expect(copy.counters(0)).toEqual(wallet.counters(0))
  site.chain.advance(10)
  const { history, vault } = await readProofs(chain, program_id)
  const recovered = recoverWallet(wallet.seed, history, vault.config.generation, LIMITS)
  const alike = recovered.state.notes.filter(({ blinding }) => blinding === note.blinding)
  expect(alike.map(({ amount, origin, state }) => `${amount} ${origin} ${state}`).sort()).toEqual([
    '4000000 deposit free',
    '9000000 refund free',
  ])
  for (const one of alike) await left(one, account)
  expect(await tokenBalance(chain, account)).toBe(before + 4_000_000n + 9_000_000n)
  expect(site.fatal).toEqual([])
}, 120_000)
