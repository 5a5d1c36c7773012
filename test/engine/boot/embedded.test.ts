/** The whole story on the embedded chain: deposit, trade, settle to finality, withdraw, restart. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openChainReader } from '../../../client/chain/chain_access'
import { readVaultHistory } from '../../../client/chain/read_history'
import { type ReceiptProof, verifyReceiptOnChain } from '../../../client/verify/verify_receipt'
import { commandBytes } from '../../../client/wallet/prepare'
import type { KeysPort } from '../../../engine/ports'
import type { EventSink, Session } from '../../../engine/venue'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { STATEMENT_BODY } from '../../../protocol/bodies/statements'
import { fromHex, toHex } from '../../../protocol/bytes'
import { publicKeyOf, sign } from '../../../protocol/sign'
import type * as wire from '../../../protocol/wire/trading'
import { JTO, USDC } from '../../../sandbox/environment'
import { EmbeddedSite } from '../../kit/venue/embedded_site'
import { accountId } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

const site = new EmbeddedSite()
let alice: Trader
let bob: Trader
/** A command of epoch 1 with its receipt. */
let old: { buy: wire.PlaceRequest; receipt: wire.Receipt }
const sessions = new Map<string, Session>()
const logins = new Map<string, wire.TokenRequest>()
const tokenOf = async (name: string) => (await site.venue.login(logins.get(name)!)).access_token

beforeAll(async () => {
  await site.openChain()
  await site.openVenue()
  for (const account_id of ['alice', 'bob']) {
    logins.set(account_id, await site.issue(account_id))
    sessions.set(account_id, site.venue.authenticate(await tokenOf(account_id)))
  }
  alice = traderOf('alice')
  bob = traderOf('bob')
}, 120_000)
afterAll(() => site.remove())

function traderOf(account_id: string): Trader {
  const ledger = {
    get slot() {
      return site.venue.time().slot
    },
    deposit: () => {
      throw new Error('deposits are made on the chain')
    },
  }
  return new Trader({ venue: site.venue, ledger }, account_id)
}

/** Resolves with the first event of the account, from the start of its log, that satisfies `wanted`. */
async function event(
  account_id: string,
  wanted: (event: wire.AccountEvent) => boolean,
): Promise<wire.AccountEvent> {
  const { promise, resolve } = Promise.withResolvers<wire.AccountEvent>()
  const sink: EventSink = {
    events(told) {
      for (const { event } of told) if (wanted(event)) resolve(event)
    },
    ended: () => {},
    bye: () => {},
  }
  const subscription = await site.venue.subscribe(sessions.get(account_id)!, 0, sink, () => {})
  const found = await promise
  subscription.close()
  return found
}

/** Resolves once a deposit at `leaf_index` counts. */
async function usable(leaf_index: number): Promise<void> {
  for (;;) {
    const known = leaf_index < site.venue.treeRoot().leaf_count
    if (known && (await site.venue.treeInclusion(leaf_index)).usable) return
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('a trade goes from deposits to finalized fills on the chain', async () => {
  const money = await site.deposit(alice, USDC, 200_000_000n)
  const goods = await site.deposit(bob, JTO, 3_000_000_000n)
  await usable(1)
  const buy = alice.place(money, { expiry_slot: alice.site.ledger.slot + 5_000 })
  const sell = bob.place(goods, { side: 'sell', expiry_slot: bob.site.ledger.slot + 5_000 })
  const { receipt } = await site.venue.place('alice', buy)
  old = { buy, receipt }
  await site.venue.place('bob', sell)
  await event('alice', ({ kind }) => kind === 'fill.finalized')
  const order = await site.venue.order('alice', buy.order_id)
  expect(order).toMatchObject({ status: 'filled', filled_amount: buy.amount })
  const fill = order.fills[0]!
  expect(fill.stage).toBe('finalized')
  expect(decodeBase58(fill.signature!, 64)).toBeDefined()
  const { tree, settlement } = await site.venue.transparency()
  expect(settlement).toMatchObject({ epoch: 1 })
  expect(tree.leaf_count).toBeGreaterThanOrEqual(2)
  expect(await site.venue.settlementBatch(1)).toMatchObject({ stage: 'finalized' })
}, 120_000)

test('a withdrawal reaches a token account', async () => {
  // Two deposits, then proceeds and change of both sides.
  await usable(5)
  const deposit = await site.deposit(alice, USDC, 5_000_000n)
  await usable(6)
  const destination = decodeBase58(await site.payee(USDC), 32)!
  const request = alice.withdrawal(deposit, 2_000_000n, destination)
  const accepted = await site.venue.withdraw('alice', request)
  await event('alice', ({ kind }) => kind === 'withdrawal.paid')
  expect((await site.venue.withdrawal('alice', accepted.withdrawal_id)).status).toBe('paid')
}, 120_000)

test('after a restart the venue opens the next epoch and goes on', async () => {
  const keys_before = site.keys
  const [kept, revoked] = [await tokenOf('alice'), await tokenOf('alice')]
  await site.venue.revoke(site.venue.authenticate(revoked))
  const { items: before } = await site.venue.events('alice', { after: 0, limit: 500 })
  await site.venue.drain()
  await site.venue.close()
  await site.openVenue()
  expect(site.venue.identity().epoch).toBe(2)
  // A busy machine looks like a stalled chain at first.
  while (site.venue.status().reasons.some((reason) => reason.startsWith('reopening'))) await Bun.sleep(2)
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running' })
  const { items } = await site.venue.events('alice', { after: 0, limit: 500 })
  expect(items.slice(0, before.length)).toEqual(before)
  expect(site.venue.authenticate(kept)).toMatchObject({ account_id: accountId('alice'), access: 'trade' })
  expect(() => site.venue.authenticate(revoked)).toThrow('The bearer token is not known here.')
  expect(site.fatal).toEqual([])
  await provesOldReceipt(keys_before, site.keys)
}, 120_000)

/** The chain alone says which key certified the statement keys of an epoch that is over. */
async function provesOldReceipt(then: KeysPort, now: KeysPort): Promise<void> {
  const { venue: id, program_id } = site.venue.identity()
  const venue = fromHex(id, 32)!
  const { epoch_keys } = await readVaultHistory(openChainReader(site.chain.url), program_id)
  expect([...epoch_keys.keys()]).toEqual([1, 2])
  const statement_key = publicKeyOf(then.statement_seed)
  const proofBy = ({ settlement_seed }: KeysPort, epoch: bigint): ReceiptProof => {
    const certificate = STATEMENT_BODY.encode({ venue, statement_key, epoch })
    return {
      format: 'tacit/receipt/v1',
      certificate: toHex(certificate),
      certificate_signature: toHex(sign(settlement_seed, certificate)),
      tee_pubkey: encodeBase58(publicKeyOf(settlement_seed)),
      command: toHex(commandBytes(venue, { kind: 'place', request: old.buy })),
      receipt: { ...old.receipt, epoch: Number(epoch) },
    }
  }
  expect(await verifyReceiptOnChain(proofBy(then, 1n), epoch_keys)).toMatchObject({ epoch: 1n })
  const refused = (proof: ReceiptProof, keys = epoch_keys) =>
    verifyReceiptOnChain(proof, keys).then(
      () => 'proved',
      (error: Error) => error.message,
    )
  expect(await refused(proofBy(now, 1n))).toBe('the vault took another settlement key in epoch 1')
  expect(await refused(proofBy(then, 1n), new Map())).toBe('the chain shows no quote of epoch 1')
}
