/** An endpoint invents a deposit: the venue stops, the vault pays nothing, and the way back works. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { depositCommitment, noteInner } from '../../protocol/notes/notes'
import { vaultAddresses } from '../../protocol/vault/addresses'
import { announceRestore } from '../kit/venue/announce_restore'
import { USDC } from '../kit/venue/embedded_site'
import { EmbeddedTrading, soon } from '../kit/venue/embedded_trading'
import { LyingRpc } from '../kit/venue/lying_rpc'
import { type Deposit, element, type Trader } from '../kit/venue/trader'

const world = new EmbeddedTrading()
const { site } = world
let rpc: LyingRpc
beforeAll(async () => {
  await site.openChain()
  rpc = new LyingRpc(site.chain.url, encodeBase58(vaultAddresses(site.chain.program_id!).tree))
  site.rpc_urls = [rpc.url]
  await site.openVenue()
  await site.issue('alice')
  world.alice = world.trader('alice')
}, 120_000)
afterAll(async () => {
  await site.remove()
  await rpc.stop()
})

/** A deposit that only the endpoint knows of. */
async function fabricate(trader: Trader, amount: bigint): Promise<Deposit> {
  const mint = decodeBase58(USDC, 32)!
  const { leaf_count: leaf_index } = site.hash.root()
  const blinding = element()
  const inner = noteInner(trader.key, blinding)
  const commitment = depositCommitment({ mint, amount, inner, leaf_index })
  await rpc.tell({ leaf_index, mint, amount, inner, commitment }, await site.hash.leaves(0, leaf_index))
  const opening = { mint: USDC, amount: `${amount}`, blinding: toHex(blinding), leaf_index }
  return { commitment: toHex(commitment), opening }
}

const usdc = async () => {
  const found = (await site.port.readMints()).find(({ mint }) => encodeBase58(mint) === USDC)!
  return [found.balance, found.liabilities]
}

test('a fabricated deposit is never paid; the truth stops the venue, and a restore from chain goes on', async () => {
  const { venue } = site
  const real = await world.deposited(world.alice, USDC, 5_000_000n)
  const fake = await fabricate(world.alice, 5_000_000n)
  while (venue.treeRoot().leaf_count < 2) await soon()
  while (!(await venue.treeInclusion(1)).usable) await soon()
  const destination = await world.payee(USDC)
  const { withdrawal_id } = await venue.withdraw(
    'alice',
    world.alice.withdrawal(fake, 4_000_000n, destination),
  )
  const later = site.chain.slot() + 60
  while (site.chain.slot() < later) await soon()
  expect(['accepted', 'submitted']).toContain((await venue.withdrawal('alice', withdrawal_id)).status)
  expect(await usdc()).toEqual([5_000_000n, 5_000_000n])

  rpc.tellTruth()
  await site.deposit(world.alice, USDC, 1_000_000n)
  while (venue.status().matching !== 'stopped') await soon()
  expect(venue.status().reasons.join()).toContain('the note tree on chain, or what was spent, differs')
  expect(world.balance(destination)).toBe(1n)
  await venue.close()

  site.chain.warpTime(await announceRestore(site.chain))
  site.chain.advance(1)
  await site.openVenue(join(site.dir, 'restored'), { restore_from_chain: true })
  expect(site.venue.status()).toMatchObject({ ready: true })
  await site.issue('alice')
  const { seed, key, trading_key } = world.alice
  const alice = Object.assign(world.trader('alice'), { seed, key, trading_key })
  while (site.venue.treeRoot().leaf_count < 2) await soon()
  while (!(await site.venue.treeInclusion(1)).usable) await soon()
  const kept = await site.venue.withdraw('alice', alice.withdrawal(real, 4_000_000n, destination))
  while ((await site.venue.withdrawal('alice', kept.withdrawal_id)).status !== 'paid') await soon()
  expect(world.balance(destination)).toBe(4_000_001n)
  expect(await usdc()).toEqual([2_000_000n, 2_000_000n])
  expect(site.fatal).toEqual([])
}, 120_000)
