/** A venue whose endpoints read no v1 transaction once its epoch is open settles in v0: fills, withdrawals and exits. */
import { afterEach, expect, test } from 'bun:test'
import {
  type Address,
  getBase64Encoder,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  type Signature,
} from '@solana/kit'
import { PACKET_BYTES_MAX } from '../../engine/chain/client/build_transaction'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { clientsOf } from '../kit/chain/chain_folder'
import { settlementsOf } from '../kit/chain/settlements'
import { JTO, USDC } from '../kit/venue/embedded_site'
import { EmbeddedTrading, soon } from '../kit/venue/embedded_trading'
import { requestExit } from '../kit/venue/request_exit'
import type { Deposit } from '../kit/venue/trader'

let world = new EmbeddedTrading()
afterEach(async () => {
  await world.site.remove()
  world = new EmbeddedTrading()
})

type Sent = { version: 'legacy' | 0 | 1; bytes: number; failed: boolean }

/** Everything that the fee payer sent since slot `from` and what became of it. */
async function sentByVenue({ site }: EmbeddedTrading, from = 0): Promise<Sent[]> {
  const payer = encodeBase58(publicKeyOf(site.fee_seed)) as Address
  const { rpc } = clientsOf(site.chain)
  const page = await rpc.getSignaturesForAddress(payer, { commitment: 'confirmed', limit: 1000 }).send()
  const sent: Sent[] = []
  for (const { signature, err, slot } of page) {
    if (Number(slot) < from) continue
    const bytes = await bytesOf(world, signature)
    const message = getCompiledTransactionMessageDecoder().decode(
      getTransactionDecoder().decode(bytes).messageBytes,
    )
    if (message.staticAccounts[0] !== payer) continue
    sent.push({ version: message.version, bytes: bytes.length, failed: err !== null })
  }
  return sent
}

async function bytesOf({ site }: EmbeddedTrading, signature: Signature): Promise<Uint8Array> {
  const config = { commitment: 'confirmed', encoding: 'base64', maxSupportedTransactionVersion: 1 } as const
  const found = await clientsOf(site.chain).rpc.getTransaction(signature, config).send()
  return new Uint8Array(getBase64Encoder().encode(found!.transaction[0]))
}

/** As many buys as sells of one lot each, all in the same auction; resolves with the buys once they are matched. */
async function auction(pairs: number, before_match = () => {}): Promise<string[]> {
  const { site, alice, bob } = world
  const notes: { money: Deposit; goods: Deposit }[] = []
  for (let pair = 0; pair < pairs - 1; pair++) {
    const first = await world.leafCount()
    const money = await site.deposit(alice, USDC, 200_000_000n, first)
    notes.push({ money, goods: await site.deposit(bob, JTO, 3_000_000_000n, first + 1) })
  }
  const money = await world.deposited(alice, USDC, 200_000_000n)
  notes.push({ money, goods: await world.deposited(bob, JTO, 3_000_000_000n) })
  site.chain.stall(true)
  await knowsSlot(await clientsOf(site.chain).rpc.getSlot({ commitment: 'confirmed' }).send())
  before_match()
  const expiry_slot = site.venue.time().slot + 5_000
  const ids: string[] = []
  for (const { money, goods } of notes) {
    const { order_id } = await site.venue.place('alice', alice.place(money, { expiry_slot }))
    await site.venue.place('bob', bob.place(goods, { side: 'sell', expiry_slot }))
    ids.push(order_id)
  }
  site.chain.stall(false)
  // Hashed too: closing in the middle of that is what a crash does.
  for (const order_id of ids)
    while ((await site.venue.order('alice', order_id)).fills.length === 0) await soon()
  return ids
}

/** Until the venue has seen the slot: no auction can close between the orders that follow while the chain stands. */
async function knowsSlot(slot: bigint): Promise<void> {
  while (world.site.venue.time().slot < Number(slot)) await soon()
}

async function untilFinal(order_ids: string[]): Promise<void> {
  const { venue } = world.site
  for (const order_id of order_ids)
    while ((await venue.order('alice', order_id)).fills.some(({ stage }) => stage !== 'finalized'))
      await soon()
}

test('fills, a withdrawal and an exit settle in packets, and a restart gives the same', async () => {
  world.site.transactions = 0
  await world.open()
  const { site, alice } = world
  // An opening fits v1 only.
  site.chain.faults.refuse_v1 = true
  const opened = site.chain.slot()
  const orders = await auction(4)
  await untilFinal(orders)

  const deposit = await world.deposited(alice, USDC, 5_000_000n)
  const payee = await world.payee(USDC)
  await site.venue.withdraw('alice', alice.withdrawal(deposit, 2_000_000n, payee))
  await world.until('alice', ({ kind }) => kind === 'withdrawal.paid')
  expect(world.balance(payee)).toBe(2_000_001n)

  const stranger = world.trader('nobody')
  const unseen = await world.deposited(stranger, USDC, 7_000_000n)
  const destination = await world.payee(USDC)
  // Its owner asks through an endpoint of his own.
  const { account } = await requestExit(site, stranger, unseen, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  await world.untilBalance(destination, 7_000_001n)

  const before = await site.venue.snapshot('alice')
  const fills = await site.venue.fills('alice', { after: 0, limit: 100 })
  const { root } = site.venue.treeRoot()
  const sent = await sentByVenue(world, opened)
  await site.venue.close()
  site.chain.faults.refuse_v1 = undefined
  await site.openVenue()
  expect(site.venue.identity().epoch).toBe(2)
  expect(await site.venue.snapshot('alice')).toEqual(before)
  expect(await site.venue.fills('alice', { after: 0, limit: 100 })).toEqual(fills)
  expect(site.venue.treeRoot().root).toBe(root)
  await site.venue.drain()

  expect(sent.map(({ version }) => version)).toEqual(sent.map(() => 0))
  expect(sent.every(({ failed }) => !failed)).toBe(true)
  // Four pairs are eight parts: with two pairs the first batch has room for one part, which no pair fits.
  const largest = Math.max(...sent.map(({ bytes }) => bytes))
  expect(largest).toBeGreaterThan(1_000)
  expect(largest).toBeLessThanOrEqual(PACKET_BYTES_MAX)
  expect(site.fatal).toEqual([])
}, 40_000)

test('a batch packed for v1 lands as v1 after the switch, as soon as an endpoint takes it, and nothing overtakes it', async () => {
  await world.open()
  const { site } = world
  const large = await auction(4, () => {
    site.chain.faults.drop = settlementsOf(site.chain)
  })
  await site.venue.close()
  // The opening is of the larger form too, and lands alone.
  let opening: string | undefined
  site.chain.faults.drop = (signature) => {
    opening ??= signature
    return signature !== opening
  }
  site.transactions = 0
  await site.openVenue()
  site.chain.faults.refuse_v1 = true
  site.chain.faults.drop = undefined
  const opened = site.chain.slot()
  world.alice = world.trader('alice')
  world.bob = world.trader('bob')
  const small = await auction(1)
  while (site.venue.status().settlement !== 'degraded') await soon()
  expect(
    (await sentByVenue(world, opened)).some(({ version, bytes }) => version === 1 && bytes > 1_232),
  ).toBe(false)
  for (const order_id of [...large, ...small]) {
    const { fills } = await site.venue.order('alice', order_id)
    expect(fills.map(({ stage }) => stage)).toEqual(['matched'])
  }

  site.chain.faults.refuse_v1 = undefined
  await untilFinal([...large, ...small])
  const sent = await sentByVenue(world, opened)
  const settled = sent.filter(({ bytes }) => bytes > 500)
  expect(settled.filter(({ version }) => version === 1).map(({ bytes }) => bytes > PACKET_BYTES_MAX)).toEqual(
    [true],
  )
  expect(settled.some(({ version }) => version === 0)).toBe(true)
  const { settlement } = await site.venue.transparency()
  expect(settlement).toMatchObject({ epoch: 2 })
  expect(toHex(site.hash.root().root)).toBe(site.venue.treeRoot().root)
  expect(site.fatal).toEqual([])
}, 40_000)
