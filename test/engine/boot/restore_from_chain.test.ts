/** The journal is lost: the admin's announcement, the venue's notes by the chain, and its traders' balances. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { openVenue } from '../../../engine/index'
import { decodeBase58 } from '../../../protocol/base58'
import { fromHex, toHex } from '../../../protocol/bytes'
import { openingCommitment, outputBlinding } from '../../../protocol/notes/notes'
import type * as wire from '../../../protocol/wire/trading'
import { JTO, USDC } from '../../../sandbox/environment'
import { announceRestore } from '../../kit/vault/open_vault'
import { EmbeddedTrading, soon } from '../../kit/venue/embedded_site'
import { jsonVenue } from '../../kit/venue/json_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import type { Deposit, Trader } from '../../kit/venue/trader'

const world = new EmbeddedTrading()
const { site } = world
beforeAll(() => world.open(), 120_000)
afterAll(() => site.remove())

/** The same key, signing for the venue that runs now. */
function again(trader: Trader): Trader {
  const { seed, key, trading_key } = trader
  return Object.assign(world.trader(trader.account_id), { seed, key, trading_key })
}

/** Proceeds of an order's first fill, as a wallet computes them from its own secrets. */
function proceeds(trader: Trader, order: wire.PlaceRequest, mint: string, amount: bigint): Deposit {
  const blinding = outputBlinding({
    anchor: fromHex(order.continuation_anchors[0]!, 32)!,
    order_id: fromHex(order.order_id, 16)!,
    nonce: BigInt(order.nonce),
    generation: 0,
    index_role: 0,
  })
  const bytes = decodeBase58(mint, 32)!
  const commitment = openingCommitment({ owner: trader.key, mint: bytes, amount, blinding })
  return { commitment: toHex(commitment), opening: { mint, amount: `${amount}`, blinding: toHex(blinding) } }
}

test('restored from chain alone: notes open, spent ones stay spent, old bodies are void, and everybody can see it', async () => {
  const expiry_slot = site.venue.time().slot + 5_000
  const money = await world.deposited(world.alice, USDC, 200_000_000n)
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  const kept = await world.deposited(world.alice, USDC, 300_000_000n)
  const buy = world.alice.place(money, { expiry_slot })
  await site.venue.place('alice', buy)
  await site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  const resting = world.alice.place(kept, { price_limit: '90000000', expiry_slot })
  await site.venue.place('alice', resting)
  await site.venue.drain()
  const before = await site.port.readConfig()
  const { journal_seq } = before
  await site.venue.close()

  const empty = join(site.dir, 'empty')
  await site.openVenue(empty)
  expect(site.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  await site.venue.close()
  const wait_s = await announceRestore(site.chain)
  const early = await site.openVenue(empty).then(
    () => 'opened',
    (error: Error) => error.message,
  )
  expect(early).toContain('restore_not_authorized')
  await Promise.all([site.port.close(), site.hash.close()])

  site.chain.warpTime(wait_s)
  const restored = join(site.dir, 'restored')
  const venue = await site.openVenue(restored)
  expect(venue.status()).toMatchObject({ ready: true, matching: 'running' })
  expect(venue.identity()).toMatchObject({ generation: 1, epoch: 2 })
  const { settlement, admin } = await venue.transparency()
  expect(settlement).toMatchObject({ generation: 1, epoch: 2, last_batch: 1 })
  expect(admin.pending).toEqual([])
  expect((await site.port.readConfig()).journal_seq).toBeLessThan(journal_seq)

  for (const account_id of ['alice', 'bob']) await site.issue(account_id)
  expect((await venue.snapshot('alice')).orders).toEqual([])
  expect((await refusalOf(venue.place('alice', resting))).code).toBe('signature_invalid')
  while (venue.treeRoot().leaf_count < 6) await soon()
  while (!(await venue.treeInclusion(5)).usable) await soon()
  const [alice, bob] = [again(world.alice), again(world.bob)]
  const spent = alice.place(money, { expiry_slot: venue.time().slot + 5_000 })
  expect((await refusalOf(venue.place('alice', spent))).code).toBe('note_spent')
  const bought = proceeds(alice, buy, JTO, 1_000_000_000n)
  const deadline = venue.time().slot + 5_000
  await venue.place('alice', alice.place(bought, { side: 'sell', expiry_slot: deadline }))
  const fresh = await world.deposited(bob, USDC, 200_000_000n)
  await venue.place('bob', bob.place(fresh, { expiry_slot: deadline }))
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  const destination = await world.payee(USDC)
  await venue.withdraw('alice', alice.withdrawal(kept, 100_000_000n, destination))
  await world.until('alice', ({ kind }) => kind === 'withdrawal.paid')
  expect(world.balance(destination)).toBe(100_000_001n)
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)

  await venue.close()
  // Providers that still show the venue of before are waited for.
  const parts = await site.parts(restored)
  const { chain } = parts.ports
  const readNow = chain.readConfig.bind(chain)
  let lates = 2
  chain.readConfig = async (level) => (lates-- > 0 ? before : readNow(level))
  site.venue = jsonVenue(await openVenue(parts))
  expect(site.venue.status().matching).toBe('running')
  expect(site.venue.identity()).toMatchObject({ generation: 1, epoch: 3 })
  expect(site.fatal).toEqual([])
}, 120_000)
