/** The typed calls and the event stream against a real venue process, which is also killed under the stream. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type EventStream, followEvents } from '../../../client/api/event_stream'
import { type Login, VenueClient, VenueProblem, WrongAccount } from '../../../client/api/venue_client'
import { openChainAccess } from '../../../client/chain/chain_access'
import { identityOf, type VenueIdentity, verifyReceipt } from '../../../client/verify/index'
import { absorbEvent } from '../../../client/wallet/absorb'
import {
  commandBytes,
  dropRefused,
  prepareCancel,
  prepareCancelAll,
  prepareDeadMan,
  preparePlace,
  prepareReshape,
  prepareWithdrawal,
  type SentCommand,
} from '../../../client/wallet/prepare'
import { Wallet } from '../../../client/wallet/wallet'
import { fromHex } from '../../../protocol/bytes'
import type { AccountEvent, Attestation, PlaceRequest, Receipt } from '../../../protocol/wire/trading'
import { USDC } from '../../../sandbox/environment'
import { fundTrader, openAccount } from '../../faults/kit/open_trader'
import { VenueProcess, venueTransport } from '../../faults/kit/venue_process'
import { rootFromPath } from '../../kit/root_from_path'

const venue = new VenueProcess()
const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
const events: AccountEvent[] = []
let credentials: Login
let client: VenueClient
let stream: EventStream
let venue_id: Uint8Array
let identity: VenueIdentity
/** Journal seq of the newest receipt. */
let receipt_seq = 0

beforeAll(async () => {
  await venue.start()
  const account = await openAccount(venue, 'ada')
  client = account.client
  credentials = account.credentials
  venue_id = fromHex((await client.info()).venue, 32)!
  const answer = await client.transport.fetch(`/attestation?reportData=${'11'.repeat(32)}`)
  identity = identityOf({ attestation: (await answer.json()) as Attestation })
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const chain = await openChainAccess(venue.facts.rpc_url, seed)
  const amounts = new Map([[USDC, 500_000_000n]])
  await fundTrader({ chain, wallet, client, keys: 1 } as never, venue.facts.program_id, amounts, 3)
}, 180_000)
afterAll(async () => {
  stream?.close()
  await venue.remove()
})

async function untilEvent(holds: (event: AccountEvent) => boolean): Promise<AccountEvent> {
  for (;;) {
    const found = events.find(holds)
    if (found !== undefined) return found
    await Bun.sleep(10)
  }
}
/** The receipt of a command that was sent after every receipt before it. */
async function expectReceipt({ receipt }: { receipt: Receipt }, command: SentCommand): Promise<void> {
  await verifyReceipt(receipt, identity, commandBytes(venue_id, command), receipt_seq)
  receipt_seq = receipt.seq
}
async function problemOf(answer: Promise<unknown>): Promise<VenueProblem> {
  const problem = await answer.catch((error: unknown) => error)
  if (!(problem instanceof VenueProblem)) throw new Error('expected a refusal')
  return problem
}
async function buy(): Promise<PlaceRequest> {
  const [instrument, { slot }] = await Promise.all([client.instrument('SOL-USDC'), client.time()])
  const terms = { instrument, side: 'buy', amount: 1_000_000_000n, price_limit: 140_000_000n } as const
  return preparePlace(wallet, venue_id, { ...terms, expiry_slot: slot + 3_000 }, wallet.freeNotes(USDC)[0]!)
}

test('public facts and trees are read, and paths lead to the root', async () => {
  const [instruments, status, transparency] = await Promise.all([
    client.instruments(),
    client.status(),
    client.transparency(),
  ])
  expect(instruments.map(({ symbol }) => symbol)).toContain('SOL-USDC')
  expect(status.ready).toBe(true)
  expect(transparency.mints.find(({ mint }) => mint === USDC)?.vault_balance).toBe('1500000000')
  const { root, leaf_count } = await client.treeRoot()
  expect((await client.leaves(0, 10)).leaves).toHaveLength(leaf_count)
  const { commitment } = wallet.state.notes[0]!
  const proof = await client.inclusion({ commitment })
  const siblings = proof.siblings.map((one) => fromHex(one, 32)!)
  const reached = rootFromPath(fromHex(commitment, 32)!, proof.leaf_index, siblings)
  expect(Buffer.from(reached).toString('hex')).toBe(proof.root)
  expect(proof.leaf_index < leaf_count || proof.root === root).toBe(true)
})

test('the stream has every event of every command, and the wallet absorbs them', async () => {
  const handlers = {
    event(event: AccountEvent) {
      absorbEvent(wallet, 0, event)
      events.push(event)
    },
  }
  stream = followEvents(client, 0, handlers)
  const request = await buy()
  const { signature, ...terms } = request
  expect(await client.check(terms)).toEqual({ ok: true })
  const placed = await client.place(request)
  expect(placed).toMatchObject({ order_id: request.order_id, status: 'accepted' })
  await expectReceipt(placed, { kind: 'place', request })
  expect((await client.order(request.order_id)).remaining_amount).toBe(request.amount)
  expect((await client.orders({ status: 'open' })).items).toHaveLength(1)
  const key = wallet.tradingKeyText(0)
  expect(await client.nonces(key)).toEqual({ place_nonce: '1', cancel_nonce: '0' })
  expect((await client.settlementOfOrder(request.order_id)).fills).toEqual([])
  const { order_id } = request
  const timer = prepareDeadMan(wallet, venue_id, 0, 100_000)
  await expectReceipt(await client.deadMan(timer), { kind: 'dead_man', request: timer })
  const cancel = prepareCancel(wallet, venue_id, order_id, 0)
  await expectReceipt(await client.cancel(order_id, cancel), { kind: 'cancel', order_id, request: cancel })
  const all = [undefined, 'SOL-USDC'].map((symbol) => prepareCancelAll(wallet, venue_id, 0, symbol))
  const none = await client.cancelAll(all)
  expect(none.cancelled).toEqual([])
  await expectReceipt(none, { kind: 'cancel_all', request: all })
  await untilEvent(({ kind }) => kind === 'order.cancelled')
  expect(wallet.freeNotes(USDC)).toHaveLength(3)

  const { slot } = await client.time()
  const [first, second] = wallet.freeNotes(USDC)
  const merge = { amounts: [1_000_000_000n], expiry_slot: slot + 3_000 }
  const reshape = prepareReshape(wallet, venue_id, [first!, second!], merge)
  const { reshape_id, ...reshaped } = await client.reshape(reshape)
  await expectReceipt(reshaped, { kind: 'reshape', request: reshape })
  await untilEvent(({ kind }) => kind === 'reshape.finalized')
  const landed = await client.reshapeOf(reshape_id)
  expect(landed.status).toBe('finalized')
  expect(await client.settlementBatch(landed.settlement_batch!)).toMatchObject({ stage: 'finalized' })
  expect((await client.settlement()).last_batch).toBe(landed.settlement_batch!)
  const note = wallet.noteFor(USDC, 1_000_000_000n)!
  const to = { destination: wallet.tradingKeyText(5), amount: 5_000_000n, expiry_slot: slot + 3_000 }
  const withdrawal = prepareWithdrawal(wallet, venue_id, note, to)
  const { withdrawal_id, ...withdrawn } = await client.withdraw(withdrawal)
  await expectReceipt(withdrawn, { kind: 'withdraw', request: withdrawal })
  await untilEvent(({ kind }) => kind === 'withdrawal.refunded')
  expect((await client.withdrawal(withdrawal_id)).status).toBe('refunded')
  expect((await client.fills()).items).toEqual([])
}, 120_000)

test('refusals carry the code and say whether the command applied', async () => {
  const request = await buy()
  await client.place(request)
  expect(await problemOf(client.place(request))).toMatchObject({
    status: 409,
    code: 'order_exists',
    applied: 'yes',
  })
  const forged = { ...request, order_id: '11'.repeat(16) }
  expect(await problemOf(client.place(forged))).toMatchObject({ status: 403, applied: 'no' })
  expect(await problemOf(client.order('22'.repeat(16)))).toMatchObject({ status: 404, applied: 'no' })
  expect(await problemOf(client.instrument('NO-SUCH'))).toMatchObject({ code: 'instrument_unknown' })
  const stranger = new VenueClient(venueTransport(venue), { ...credentials, passphrase: 'guess' })
  expect(await problemOf(stranger.login())).toMatchObject({ status: 401 })
})

test('a credential that the operator admitted under its own key is refused, and no order goes out', async () => {
  const { credentials: stolen } = await openAccount(venue, 'operator', 'victim')
  const asked: string[] = []
  const plain = venueTransport(venue)
  const fetch: typeof plain.fetch = (path, init) => {
    asked.push(path)
    return plain.fetch(path, init)
  }
  const victim = new VenueClient({ ...plain, base_url: plain.base_url, fetch }, stolen)
  const request = await buy()
  const refused = [victim.login(), victim.place(request), victim.token(), victim.orders()]
  for (const answer of await Promise.allSettled(refused))
    expect(answer).toMatchObject({ status: 'rejected', reason: expect.any(WrongAccount) })
  const { account_id: _, ...unnamed } = stolen
  const blind = new VenueClient(plain, unnamed as Login)
  expect(await blind.login().catch((error: unknown) => error)).toBeInstanceOf(WrongAccount)
  expect(new Set(asked)).toEqual(new Set(['/auth/token']))
  dropRefused(wallet, request.order_id)
})

test('a venue that takes a request and never answers leaves its outcome open, and does not hold up the caller', async () => {
  const plain = venueTransport(venue)
  const fetch: typeof plain.fetch = (_, init) =>
    new Promise((_resolve, reject) => {
      init?.signal?.addEventListener('abort', () => reject(init.signal!.reason))
    })
  const hung = new VenueClient({ ...plain, base_url: plain.base_url, fetch }, credentials, 20)
  expect(await hung.time().catch((error: Error) => error.name)).toBe('TimeoutError')
})

test('the client logs in by itself: at first, and again after its token is revoked', async () => {
  const own = new VenueClient(venueTransport(venue), credentials)
  const first = await own.token()
  expect(await own.token()).toBe(first)
  await own.revoke()
  expect(await own.token()).not.toBe(first)
  expect((await own.orders()).items.length).toBeGreaterThan(0)
})

test('after the venue is killed the stream comes back by itself, with every event once and in order', async () => {
  const [open] = (await client.orders({ status: 'open' })).items
  const before = events.length
  await venue.kill()
  await venue.start()
  // Its token died with the epoch: the call is rejected for it, and goes out again under a new one.
  await client.cancel(open!.order_id, prepareCancel(wallet, venue_id, open!.order_id, 0))
  await untilEvent(
    ({ kind, data }) => kind === 'order.cancelled' && 'order_id' in data && data.order_id === open!.order_id,
  )
  expect(events.length).toBeGreaterThan(before)
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1))
  expect(stream.seq).toBe(events.length)
  const { items } = await client.events({ after: 0, limit: 500 })
  expect(items).toEqual(events)
}, 120_000)
