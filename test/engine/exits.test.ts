/** Exit requests on the real chain with the venue on: each ends correctly in every state of its note. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { transactionInstructions } from '../../engine/chain/client/transaction_status'
import { decodeSettleData } from '../../protocol/vault/settle'
import type { OpenedChain } from '../../sandbox/chain/open_embedded_chain'
import { fundedWallet } from '../kit/chain/transfer'
import { JTO, USDC } from '../kit/venue/embedded_site'
import { EmbeddedTrading } from '../kit/venue/embedded_trading'
import { requestExit } from '../kit/venue/request_exit'

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
