/** Exit requests on the real chain with the venue on: each ends right by itself, whatever its note is doing. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Session } from '../../engine/venue'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { readU64Le } from '../../protocol/bytes'
import type * as wire from '../../protocol/wire'
import { fundedWallet } from '../chain/transfer'
import { EmbeddedSite, JTO, USDC } from './embedded_site'
import { requestExit } from './request_exit'
import { type Deposit, Trader } from './trader'

const site = new EmbeddedSite()
let alice: Trader
let bob: Trader
const sessions = new Map<string, Session>()
let leaf_count = 0

beforeAll(async () => {
  await site.openChain()
  await site.openVenue()
  for (const account_id of ['alice', 'bob']) {
    const { access_token } = await site.venue.login(await site.issue(account_id))
    sessions.set(account_id, site.venue.authenticate(access_token))
  }
  const ledger = {
    get slot() {
      return site.venue.time().slot
    },
    deposit: (): never => {
      throw new Error('deposits are made on the chain')
    },
  }
  alice = new Trader({ venue: site.venue, ledger }, 'alice')
  bob = new Trader({ venue: site.venue, ledger }, 'bob')
}, 30_000)
afterAll(() => site.remove())

const soon = () => new Promise((resolve) => setImmediate(resolve))

/** A deposit that counts. */
async function deposited(trader: Trader, mint: string, amount: bigint): Promise<Deposit> {
  leaf_count = site.venue.treeRoot().leaf_count
  const deposit = await site.deposit(trader, mint, amount, leaf_count)
  while (site.venue.treeRoot().leaf_count <= leaf_count) await soon()
  while (!(await site.venue.treeInclusion({ leaf_index: leaf_count })).usable) await soon()
  return deposit
}

/** Resolves once the account on chain is there, or gone, for good. */
async function finally_(account: Uint8Array, there: boolean): Promise<void> {
  const at = () => site.chain.machine.accountAt(encodeBase58(account), 'finalized')
  while ((at() !== undefined) !== there) await soon()
}

const balance = (account: Uint8Array) =>
  readU64Le(site.chain.machine.accountAt(encodeBase58(account), 'finalized')!.data, 64)

async function eventsOf(account_id: string): Promise<wire.AccountEvent[]> {
  return (await site.venue.events(account_id, { after: 0, limit: 500 })).items
}

async function until(account_id: string, wanted: (event: wire.AccountEvent) => boolean): Promise<void> {
  while (!(await eventsOf(account_id)).some(wanted)) await soon()
}

async function payee(mint: string): Promise<Uint8Array> {
  return decodeBase58(await site.payee(mint), 32)!
}

test('a deposit the venue never saw opened is paid out', async () => {
  const stranger = new Trader(alice.site, 'nobody')
  const deposit = await deposited(stranger, USDC, 7_000_000n)
  const destination = await payee(USDC)
  const { account } = await requestExit(site, stranger, deposit, destination)
  await finally_(account, true)
  await finally_(account, false)
  expect(balance(destination)).toBe(7_000_001n)
}, 20_000)

test('a note that backs a live order is paid out and the order cancelled', async () => {
  const deposit = await deposited(alice, USDC, 200_000_000n)
  const order = alice.place(deposit, { expiry_slot: alice.site.ledger.slot + 5_000 })
  await site.venue.place('alice', order)
  const destination = await payee(USDC)
  const { account } = await requestExit(site, alice, deposit, destination)
  await finally_(account, true)
  await finally_(account, false)
  expect(balance(destination)).toBe(200_000_001n)
  const ended = await site.venue.order('alice', order.order_id)
  expect(ended).toMatchObject({ status: 'cancelled', reason: 'note_exited', filled_amount: '0' })
}, 20_000)

test('a note in an unlanded batch is refused once that has landed, and again when asked for later', async () => {
  const money = await deposited(alice, USDC, 200_000_000n)
  const goods = await deposited(bob, JTO, 3_000_000_000n)
  const destination = await payee(USDC)
  const payer = await fundedWallet(site.chain)
  const allowed = new Set<string>()
  site.chain.faults.drop = (signature) => !allowed.has(signature)
  const expiry_slot = alice.site.ledger.slot + 5_000
  const buy = alice.place(money, { expiry_slot })
  await site.venue.place('alice', buy)
  await site.venue.place('bob', bob.place(goods, { side: 'sell', expiry_slot }))
  await until('alice', ({ kind }) => kind === 'fill.matched')
  const sending = (signature: string) => void allowed.add(signature)
  const { account } = await requestExit(site, alice, money, destination, { payer, sending })
  await finally_(account, true)
  expect((await eventsOf('alice')).some(({ kind }) => kind === 'fill.confirmed')).toBe(false)
  site.chain.faults.drop = undefined
  await finally_(account, false)
  await until('alice', ({ kind }) => kind === 'fill.finalized')
  await requestExit(site, alice, money, destination)
  await finally_(account, true)
  await finally_(account, false)
  expect(balance(destination)).toBe(1n)
  expect(await site.venue.order('alice', buy.order_id)).toMatchObject({ status: 'filled' })
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  expect(site.fatal).toEqual([])
}, 20_000)
