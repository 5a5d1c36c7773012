/** A payout whose transfer fails, or is put outside of its slots by a lie, ends as a payment or as a note. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { chainAddresses } from '../../../engine/chain/client/chain_client'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { LIMITS } from '../../../engine/limits'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { readU64Le, u64Le } from '../../../protocol/bytes'
import { TOKEN_PROGRAM, vaultTokenAddress } from '../../../protocol/vault/addresses'
import { payInstruction } from '../../../protocol/vault/settle'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { JTO, USDC } from '../../../sandbox/environment'
import { mintTo } from '../../kit/chain/chain_folder'
import { bendAccounts, type Lie, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { fundedWallet } from '../../kit/chain/transfer'
import { VaultWorld } from '../../kit/chain/vault_world'
import { decodePay } from '../../kit/vault/open_vault'
import { EmbeddedTrading, soon } from '../../kit/venue/embedded_trading'
import type { Deposit } from '../../kit/venue/trader'

const world = new EmbeddedTrading()
const { site } = world
beforeAll(() => world.open(), 120_000)
afterAll(() => site.remove())

/** In a token account. */
const AMOUNT_AT = 64
const AMOUNT = 4_000_000n

const mint = decodeBase58(USDC, 32)!
const vault = () => vaultTokenAddress(site.chain.program_id!, mint)
const reasons = () => site.venue.status().reasons

/** Moves tokens out of the vault, or back into it, as no program lets anybody do. */
function change(amount: bigint): void {
  const { machine } = site.chain
  const held = machine.bank.newest(encodeBase58(vault()))!
  const data = held.data.slice()
  data.set(u64Le(readU64Le(data, AMOUNT_AT) + amount), AMOUNT_AT)
  machine.install([[encodeBase58(vault()), { ...held, data }]])
}

async function withdraw(deposit: Deposit, amount: bigint, destination: Uint8Array): Promise<string> {
  const request = world.alice.withdrawal(deposit, amount, destination)
  return (await site.venue.withdraw('alice', request)).withdrawal_id
}

async function untilStatus(withdrawal_id: string, status: string): Promise<void> {
  while ((await site.venue.withdrawal('alice', withdrawal_id)).status !== status) await soon()
}

/** A withdrawal of more than the vault holds; smaller payments are covered, and `heal` gives back what is missing. */
async function failing(deposit: Deposit) {
  const missing = world.balance(vault()) - AMOUNT + 1n
  change(-missing)
  const destination = await world.payee(USDC)
  const withdrawal_id = await withdraw(deposit, AMOUNT, destination)
  while (!reasons().includes('payout_failing')) await soon()
  return { destination, withdrawal_id, heal: () => change(missing) }
}

async function expectAtRest(): Promise<void> {
  while (reasons().length > 0) await soon()
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)
  expect(site.fatal).toEqual([])
}

test('it is named and the venue stays ready, others are paid, batches land, and so is it once it can be', async () => {
  const [one, two, money] = [
    await world.deposited(world.alice, USDC, AMOUNT + 1_000_000n),
    await world.deposited(world.alice, USDC, 3_000_000n),
    await world.deposited(world.alice, USDC, 200_000_000n),
  ]
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  const { destination, withdrawal_id, heal } = await failing(one)
  expect(site.venue.status()).toMatchObject({ ready: true, settlement: 'degraded' })
  const other = await world.payee(USDC)
  await untilStatus(await withdraw(two, 2_000_000n, other), 'paid')
  expect(world.balance(other)).toBe(2_000_001n)
  const expiry_slot = site.venue.time().slot + 5_000
  await site.venue.place('alice', world.alice.place(money, { expiry_slot }))
  await site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  expect(await site.venue.withdrawal('alice', withdrawal_id)).toMatchObject({ status: 'finalized' })
  // Rejected by the program, it is no delay of the venue's.
  site.later_ms += 20_000
  while (reasons().join() !== 'payout_failing') await soon()
  expect(site.venue.status()).toMatchObject({ ready: true })
  heal()
  await untilStatus(withdrawal_id, 'paid')
  expect(world.balance(destination)).toBe(AMOUNT + 1n)
  await expectAtRest()
}, 180_000)

test('seven days after it was queued it comes back as a note, not before, and the note pays out', async () => {
  const { destination, withdrawal_id, heal } = await failing(
    await world.deposited(world.alice, USDC, AMOUNT + 1_000_000n),
  )
  const early_s = LIMITS.payout_refund_after_s - 3_600
  site.chain.warpTime(early_s)
  site.later_ms += early_s * 1_000
  const signature = async () => (await site.venue.withdrawal('alice', withdrawal_id)).payout_signature
  const before = await signature()
  while ((await signature()) === before) await soon()
  expect(reasons()).toContain('payout_failing')
  site.chain.warpTime(3_600)
  site.later_ms += 3_600_000
  await untilStatus(withdrawal_id, 'refunded')
  expect(world.balance(destination)).toBe(1n)
  const { refund_commitment } = await site.venue.withdrawal('alice', withdrawal_id)
  heal()
  await expectAtRest()
  // The venue knows the note: no opening is needed.
  const payee = await world.payee(USDC)
  await untilStatus(await withdraw({ commitment: refund_commitment! } as Deposit, 3_000_000n, payee), 'paid')
  expect(world.balance(payee)).toBe(3_000_001n)
  await expectAtRest()
}, 180_000)

/** First byte of the queue account, and its bytes before the entries (protocol/vault/accounts.ts). */
const QUEUE_KIND = 7
const QUEUE_HEADER_BYTES = 160

/** Swallows the venue's payments: a stranger closes the entry. */
const swallowed: Lie = (_, { params }) => {
  const { data } = transactionInstructions(Buffer.from((params as [string])[0], 'base64')).at(-1)!
  return decodePay(data) ? encodeBase58(new Uint8Array(64).fill(1)) : undefined
}

/** One entry of the queue, and a lying quorum of one provider. */
async function queued() {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000_000n)
  endpoint.lies = { sendTransaction: swallowed }
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const { address } = await fundedWallet(world.chain)
  await mintTo(world.chain, USDC, address, 1n)
  const destination = decodeBase58(await associatedTokenAddress(address, USDC), 32)!
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 400n })]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'submitted')
  const { program } = world
  const queue = encodeBase58(chainAddresses(program).vault.queue)
  const stranger = await fundedWallet(world.chain)
  const named = { place: 0, number: 1, mint, destination, token_program: TOKEN_PROGRAM }
  const instruction = toInstruction(payInstruction({ program, refund: false, entries: [named] }), [])
  return {
    world,
    endpoint,
    open: world.chain.machine.bank.newest(queue)!.data.slice(),
    pay: () => world.send(stranger, instruction),
    /** Lies that show the queue as `change` makes it, in the newest slot, and serve no transaction. */
    lie: (change: (data: Buffer) => void) => {
      endpoint.lies = {
        sendTransaction: swallowed,
        getTransaction: () => null,
        getMultipleAccounts: (result) => bendAccounts(result, QUEUE_KIND, change),
      }
    },
    passSlots: async (slots: number) => {
      const { slot } = world.port.view()
      while (world.port.view().slot < slot + slots) await Bun.sleep(1)
    },
    /** The truth, and what comes of it. */
    async outcome() {
      endpoint.lies = {}
      await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'finalized')
      const { outcome } = world.outbox.payoutOf(1)!
      await world.close()
      await endpoint.stop()
      return outcome
    },
  }
}

test('an entry is shown open long after it was paid', async () => {
  const { open, pay, lie, passSlots, outcome } = await queued()
  lie((data) => data.set(open))
  await pay()
  await passSlots(40)
  expect(await outcome()).toBe('paid')
}, 120_000)

test('an entry is shown closed long before it was paid', async () => {
  const { pay, lie, passSlots, outcome } = await queued()
  lie((data) => data.fill(0, QUEUE_HEADER_BYTES))
  await passSlots(40)
  await pay()
  await passSlots(3)
  expect(await outcome()).toBe('paid')
}, 120_000)
