/** Overdue work makes the venue not ready, with its reason, until it is done. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { LIMITS } from '../../../engine/limits'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import { declareOutageInstruction } from '../../../protocol/vault/admin'
import { type InstructionName, instructionName } from '../../../protocol/vault/instruction'
import { JTO, USDC } from '../../../sandbox/environment'
import { administerVault } from '../../kit/vault/open_vault'
import { EmbeddedTrading, requestExit, soon } from '../../kit/venue/embedded_site'

let world: EmbeddedTrading
let site: EmbeddedTrading['site']
/** Transactions of these kinds reach the chain's node and never a block. */
let dropped: Set<InstructionName>
let in_vain: Set<InstructionName>

beforeEach(async () => {
  world = new EmbeddedTrading()
  site = world.site
  dropped = new Set()
  in_vain = new Set()
  await world.open()
  const { machine } = site.chain
  const enqueue = machine.enqueue.bind(machine)
  machine.enqueue = (decoded) => {
    const name = instructionName(transactionInstructions(decoded.bytes).at(-1)!.data)!
    if (dropped.has(name)) in_vain.add(name)
    else enqueue(decoded)
  }
}, 120_000)
afterEach(() => site.remove())

const status = () => site.venue.status()

async function untilReasons(...reasons: string[]): Promise<void> {
  while (status().reasons.join() !== reasons.join()) await soon()
}

/** Once the transaction was sent in vain nothing is late; it is 20 s later, which are 300 slots and more here. */
async function expectOverdue(name: InstructionName, ...reasons: string[]): Promise<void> {
  while (!in_vain.has(name)) await soon()
  expect(status()).toMatchObject({ ready: true, reasons: [] })
  site.later_ms += 20_000
  await untilReasons(...reasons)
  expect(status()).toMatchObject({ ready: false, matching: 'running' })
}

async function expectHealed(): Promise<void> {
  dropped.clear()
  await untilReasons()
  expect(status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  expect(site.fatal).toEqual([])
}

const gauge = (name: string) => site.venue.metrics().find((metric) => metric.name === name)?.value

const expiring = () => ({ expiry_slot: site.venue.time().slot + 5_000 })

test('a batch that does not land', async () => {
  const money = await world.deposited(world.alice, USDC, 200_000_000n)
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  dropped.add('settle')
  await site.venue.place('alice', world.alice.place(money, expiring()))
  await site.venue.place('bob', world.bob.place(goods, { side: 'sell', ...expiring() }))
  await expectOverdue('settle', 'batch_delayed')
  await expectHealed()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
}, 180_000)

test('an outage that the admin declares is shown to everybody', async () => {
  expect((await site.venue.transparency()).outages).toEqual([])
  const { admin_seed, program_id, url } = site.chain
  const fields = { program: program_id!, admin: publicKeyOf(admin_seed), extra_s: 77 }
  await administerVault([url], [admin_seed], declareOutageInstruction(fields), 0n)
  const { outage } = await site.port.readConfig()
  expect(outage).toEqual({ outage_at_s: expect.any(Number), outage_extra_s: 77 })
  site.later_ms += LIMITS.chain_reading_fresh_ms + 1
  expect((await site.venue.transparency()).outages).toEqual([outage!])
}, 180_000)

test('a payout that is not closed', async () => {
  const deposit = await world.deposited(world.alice, USDC, 5_000_000n)
  const destination = await world.payee(USDC)
  dropped.add('pay')
  await site.venue.withdraw('alice', world.alice.withdrawal(deposit, 4_000_000n, destination))
  await expectOverdue('pay', 'payout_overdue')
  await expectHealed()
  await world.untilBalance(destination, 4_000_001n)
}, 180_000)

test('an exit request that is not served, and so is late with its batch', async () => {
  const deposit = await world.deposited(world.alice, USDC, 6_000_000n)
  const destination = await world.payee(USDC)
  dropped.add('settle')
  await requestExit(site, world.alice, deposit, destination)
  await expectOverdue('settle', 'batch_delayed', 'exit_overdue')
  await expectHealed()
  await world.untilBalance(destination, 6_000_001n)
}, 180_000)

test('a record that no position on chain covers', async () => {
  // A timer of three fifths of the bound begins an anchor.
  const anchor_max_ms = 6_000
  await site.venue.close()
  await site.openVenue(site.dir, { anchor_max_ms })
  const money = await world.deposited(world.alice, USDC, 200_000_000n)
  dropped.add('anchor')
  const { order_id } = await site.venue.place('alice', world.alice.place(money, expiring()))
  site.later_ms += anchor_max_ms
  const reason =
    'unanchored: the journal position on chain is too old: look at the fee payer and the RPC providers'
  // The batch waits for its commit, which is an anchor too: other words follow from that.
  while (!status().reasons.includes(reason)) await soon()
  expect(status()).toMatchObject({ ready: false, matching: 'running' })
  await expectHealed()
  await site.venue.cancel('alice', order_id, world.alice.cancel(order_id))
}, 180_000)

test('a fee payer that runs low is named; while it is empty nothing settles but cancels go on, and a refill heals it', async () => {
  const payer = encodeBase58(publicKeyOf(site.fee_seed))
  const { machine } = site.chain
  const account = machine.bank.newest(payer)!
  const fund = (lamports: bigint) => machine.install([[payer, { ...account, lamports }]])
  // An anchor in between would pay its fee from the exact sums.
  dropped.add('anchor')
  const enough = status().chain.slot + 8
  while (status().chain.slot < enough) await soon()
  fund(99_999_999n)
  await untilReasons('fee_payer_low')
  expect(gauge('tacit_fee_payer_lamports')).toBe(99_999_999)
  fund(100_000_000n)
  await untilReasons()
  dropped.clear()
  fund(90_000_000n)
  await untilReasons('fee_payer_low')
  expect(status()).toMatchObject({ ready: true, settlement: 'degraded' })
  const deposit = await world.deposited(world.alice, USDC, 5_000_000n)
  const destination = await world.payee(USDC)
  await world.untilAccount(destination, true)
  await site.venue.withdraw('alice', world.alice.withdrawal(deposit, 4_000_000n, destination))
  await world.untilBalance(destination, 4_000_001n)
  const resting = await world.deposited(world.alice, USDC, 200_000_000n)
  const money = await world.deposited(world.alice, USDC, 5_000_000n)
  fund(0n)
  const { order_id } = await site.venue.place('alice', world.alice.place(resting, expiring()))
  const request = world.alice.withdrawal(money, 4_000_000n, destination)
  const { withdrawal_id } = await site.venue.withdraw('alice', request)
  while ((await site.venue.withdrawal('alice', withdrawal_id)).status !== 'submitted') await soon()
  site.later_ms += 20_000
  await untilReasons('batch_delayed', 'fee_payer_low')
  expect(status()).toMatchObject({ ready: false, matching: 'running' })
  const cancelled = await site.venue.cancel('alice', order_id, world.alice.cancel(order_id))
  expect(cancelled).toMatchObject({ status: 'cancelled' })
  expect(world.balance(destination)).toBe(4_000_001n)
  fund(1_000_000_000n)
  await expectHealed()
  await world.untilBalance(destination, 8_000_001n)
}, 180_000)
