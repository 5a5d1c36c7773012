/** With the venue off: a seed and the public chain recover every note, and every note leaves the vault. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readProofs } from '../../client/chain/exit_note'
import { adoptRefunds } from '../../client/wallet/adopt_refunds'
import { recoverWallet } from '../../client/wallet/recover'
import { leafFinder } from '../../client/wallet/vault_history'
import type { Wallet } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { EmbeddedSite, JTO, USDC } from '../engine/embedded_site'
import { seededRandom } from '../faults/random'
import { fundTraders, RandomSession } from './random_session'
import { WalletTrader } from './wallet_trader'

const SEED = Number(process.env['SESSION_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const ACTIONS = 120
/** A small wallet leaves small gaps; the defaults are tried once, on one wallet. */
const LIMITS = { keys: 2, deposits: 20, commands: 60 }

const site = new EmbeddedSite()
let traders: WalletTrader[] = []

beforeAll(async () => {
  await site.openChain()
  await site.openVenue()
  traders = await Promise.all(['ada', 'bob'].map((name) => WalletTrader.open(site, name)))
  await fundTraders(traders)
  const good = { [USDC]: await site.payee(USDC), [JTO]: await site.payee(JTO) }
  const unusable = encodeBase58(crypto.getRandomValues(new Uint8Array(32)))
  const session = new RandomSession(traders, seededRandom(SEED), { good, unusable })
  await session.play(ACTIONS)
  console.log(`session seed ${SEED}:`, session.tally)
  for (const trader of traders) await session.windUp(trader)
  await site.venue.drain()
  await site.venue.close()
}, 60_000)
afterAll(() => site.chain?.close())

/** What a note is, apart from how it came to be. */
function notesOf(wallet: Wallet) {
  const notes = wallet.state.notes.map(({ origin, ...note }) => note)
  return notes.sort((a, b) => (a.commitment < b.commitment ? -1 : 1))
}

test('a wallet recovered from its seed has exactly the notes it had', async () => {
  const { history, vault } = await readProofs(traders[0]!.chain, traders[0]!.program_id)
  for (const { wallet } of traders) {
    await adoptRefunds(wallet, leafFinder(history))
    const recovered = recoverWallet(wallet.seed, history, vault.config.generation, LIMITS)
    expect(notesOf(recovered)).toEqual(notesOf(wallet))
  }
}, 30_000)
