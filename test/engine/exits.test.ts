/** Exits and payouts on the real chain with the venue on: each ends correctly, or becomes a refund note. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { transactionInstructions } from '../../engine/chain/client/transaction_status'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { vaultTokenAddress } from '../../protocol/vault/addresses'
import { decodeSettleData } from '../../protocol/vault/settle'
import type * as wire from '../../protocol/wire/trading'
import type { OpenedChain } from '../../sandbox/chain/open_embedded_chain'
import { JTO, USDC } from '../../sandbox/environment'
import { fundedWallet } from '../kit/chain/transfer'
import { EmbeddedTrading, soon } from '../kit/venue/embedded_trading'
import { requestExit } from '../kit/venue/request_exit'
import { type Deposit, element } from '../kit/venue/trader'

/** Whether the signature is that of a settlement that arrived after this call. */
function settlementsOf({ machine }: OpenedChain): (signature: string) => boolean {
  const settlements = new Set<string>()
  const enqueue = machine.enqueue.bind(machine)
  machine.enqueue = (decoded) => {
    const settles = transactionInstructions(decoded.bytes).some(
      ({ data }) => decodeSettleData(data) !== undefined,
    )
    if (settles) settlements.add(decoded.signature!)
    enqueue(decoded)
  }
  return (signature) => settlements.has(signature)
}

const world = new EmbeddedTrading()
const { site } = world
beforeAll(() => world.open(), 120_000)
afterAll(() => site.remove())

test('a deposit the venue never saw opened is paid out', async () => {
  const stranger = world.trader('nobody')
  const deposit = await world.deposited(stranger, USDC, 7_000_000n)
  const destination = await world.payee(USDC)
  const { account } = await requestExit(site, stranger, deposit, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  await world.untilBalance(destination, 7_000_001n)
}, 120_000)

test('a note that backs a live order is paid out and the order cancelled', async () => {
  const deposit = await world.deposited(world.alice, USDC, 200_000_000n)
  const order = world.alice.place(deposit, { expiry_slot: world.alice.site.ledger.slot + 5_000 })
  await site.venue.place('alice', order)
  const destination = await world.payee(USDC)
  const { account } = await requestExit(site, world.alice, deposit, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  await world.untilBalance(destination, 200_000_001n)
  const ended = await site.venue.order('alice', order.order_id)
  expect(ended).toMatchObject({ status: 'cancelled', reason: 'note_exited', filled_amount: '0' })
}, 120_000)

test('a note in an unlanded batch is refused once that has landed, and again when asked for later', async () => {
  const money = await world.deposited(world.alice, USDC, 200_000_000n)
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  const destination = await world.payee(USDC)
  const payer = await fundedWallet(site.chain)
  const isSettlement = settlementsOf(site.chain)
  site.chain.faults.drop = isSettlement
  const expiry_slot = world.alice.site.ledger.slot + 5_000
  const buy = world.alice.place(money, { expiry_slot })
  await site.venue.place('alice', buy)
  await site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await world.until('alice', ({ kind }) => kind === 'fill.matched')
  const { account } = await requestExit(site, world.alice, money, destination, { payer })
  await world.untilAccount(account, true)
  expect((await world.events('alice')).some(({ kind }) => kind === 'fill.confirmed')).toBe(false)
  site.chain.faults.drop = undefined
  await world.untilAccount(account, false)
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  await requestExit(site, world.alice, money, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  expect(world.balance(destination)).toBe(1n)
  expect(await site.venue.order('alice', buy.order_id)).toMatchObject({ status: 'filled' })
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  expect(site.fatal).toEqual([])
}, 120_000)

/** Of a token account: 2 is frozen. */
const STATE_AT = 108

/** A token account that its mint's authority has frozen. */
async function frozenAccount(): Promise<Uint8Array> {
  const account = await world.payee(USDC)
  const { machine } = site.chain
  const held = machine.bank.newest(encodeBase58(account))!
  const data = held.data.slice()
  data[STATE_AT] = 2
  machine.install([[encodeBase58(account), { ...held, data }]])
  return account
}

async function refundOf(deposit: Deposit, amount: bigint, destination: Uint8Array): Promise<wire.Withdrawal> {
  const { venue } = site
  const { withdrawal_id } = await venue.withdraw(
    'alice',
    world.alice.withdrawal(deposit, amount, destination),
  )
  for (;;) {
    const found = await venue.withdrawal('alice', withdrawal_id)
    if (found.status === 'paid' || found.status === 'refunded') return found
    await soon()
  }
}

test('withdrawals to closed, frozen, wrong-mint and vault accounts are refunded as notes that pay out next time', async () => {
  const mint = decodeBase58(USDC, 32)!
  const destinations = {
    missing: element(),
    frozen: await frozenAccount(),
    wrong_mint: await world.payee(JTO),
    vault: vaultTokenAddress(site.chain.program_id!, mint),
    no_token_account: decodeBase58(USDC, 32)!,
    program: site.chain.program_id!,
  }
  const payee = await world.payee(USDC)
  const deposits: Deposit[] = []
  for (const _ of Object.keys(destinations))
    deposits.push(await world.deposited(world.alice, USDC, 5_000_000n))
  const outcomes = await Promise.all(
    Object.values(destinations).map((destination, at) => refundOf(deposits[at]!, 4_000_000n, destination)),
  )
  expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'refunded'))
  // The venue knows the notes: no opening is needed.
  const refunds = outcomes.map(({ refund_commitment }) => ({ commitment: refund_commitment! }) as Deposit)
  const paid = await Promise.all(refunds.map((refund) => refundOf(refund, 3_000_000n, payee)))
  expect(paid.map(({ status }) => status)).toEqual(paid.map(() => 'paid'))
  expect(world.balance(payee)).toBe(1n + 3_000_000n * BigInt(paid.length))
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)
}, 180_000)

test('an exit that its destination cannot receive ends served, as a note of the owner', async () => {
  const deposit = await world.deposited(world.alice, USDC, 6_000_000n)
  const before = await site.port.readConfig()
  const { account } = await requestExit(site, world.alice, deposit, await frozenAccount())
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  while ((await site.port.readConfig()).leaf_count !== before.leaf_count + 1) await soon()
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)
  expect(site.venue.status()).toMatchObject({ ready: true, settlement: 'wired' })
  expect(site.fatal).toEqual([])
}, 120_000)
