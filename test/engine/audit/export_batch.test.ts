/** The operator has a batch exported; only the auditor reads it, and it recomputes to what the venue recorded. */
import { afterEach, beforeAll, expect, test } from 'bun:test'
import { auditBatch } from '../../../client/audit/audit_batch'
import { decryptWithIdentity, newAgeKey, readAgeIdentity } from '../../../protocol/age'
import { fromHex, utf8 } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import type { PlaceRequest } from '../../../protocol/wire/trading'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { accountId } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

const SYMBOL = 'SOL-USDC'
let auditor_key: string
let identity: string
beforeAll(async () => {
  const made = await newAgeKey()
  auditor_key = made.recipient
  identity = readAgeIdentity(made.file)!
})

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

type Traders = { alice: Trader; bob: Trader }
async function traders(open: TestVenue): Promise<Traders> {
  return {
    alice: await Trader.provisioned(open, 'alice'),
    bob: await Trader.provisioned(open, 'bob'),
  }
}

/** Three buys and two sells of which two buys trade, one of them in part, and an ioc remainder is cancelled. */
async function tradedBatch(open: TestVenue, { alice, bob }: Traders): Promise<PlaceRequest[]> {
  const buys = [
    alice.place(alice.deposit('quote', 200_000_000n)),
    alice.place(alice.deposit('quote', 200_000_000n), { price_limit: '100010000', type: 'ioc' }),
    alice.place(alice.deposit('quote', 200_000_000n), { price_limit: '90000000' }),
  ]
  const sells = [
    bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell', amount: '1500000000' }),
    bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell', price_limit: '110000000' }),
  ]
  await open.chain.finalizeLeaves()
  for (const one of buys) await open.venue.place('alice', one)
  for (const one of sells) await open.venue.place('bob', one)
  await open.chain.tick(2)
  await open.engine.pump.idle()
  return [...buys, ...sells]
}

/** The batch in which the venue traded, by its own fills. */
async function batchOf({ venue }: TestVenue): Promise<number> {
  return (await venue.fills('alice', { after: 0, limit: 1 })).items[0]!.batch
}

const attested = ({ venue }: TestVenue) => ({
  venue: fromHex(venue.identity().venue, 32)!,
  tee_pubkey: publicKeyOf(site.keys.settlement_seed),
})

/** The code of a refusal, or the message of another error. */
const faultOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    (error: Error & { code?: string }) => error.code ?? error.message,
  )

test('the auditor recomputes a batch from its export, and no one else reads it', async () => {
  const open = await site.open({ auditor_key })
  const people = await traders(open)
  const placed = await tradedBatch(open, people)
  const batch = await batchOf(open)
  const file = await open.venue.exportBatch({ symbol: SYMBOL, batch })
  const { exported, recomputed } = await auditBatch(file, identity, attested(open))
  expect(exported.orders.map(({ order_id }) => order_id)).toEqual(
    placed.map(({ order_id }) => order_id).sort(),
  )
  expect(recomputed).toMatchObject({ price_ticks: 10_000, volume_lots: 1_500 })
  expect(recomputed.fills).toHaveLength(3)
  const another = readAgeIdentity((await newAgeKey()).file)!
  expect(await faultOf(auditBatch(file, another, attested(open)))).toMatch('for another key')
  // Neither the file nor what the auditor reads in it names a trader.
  const plain = Buffer.from((await decryptWithIdentity(identity, file))!)
  for (const { key, account_id } of Object.values(people)) {
    for (const mark of [key, fromHex(accountId(account_id), 32)!, utf8(account_id)])
      expect(plain.includes(mark)).toBe(false)
  }
  for (const { order_id } of placed) {
    expect(plain.includes(fromHex(order_id, 16)!)).toBe(true)
    expect(Buffer.from(file).includes(fromHex(order_id, 16)!)).toBe(false)
  }
})

test('every batch that was matched is exported alike, with members or without', async () => {
  const open = await site.open({ auditor_key })
  await open.chain.tick(2)
  await tradedBatch(open, await traders(open))
  const batch = await batchOf(open)
  const sizes = new Set<number>()
  for (const [symbol, number] of [
    [SYMBOL, 1],
    [SYMBOL, batch],
    ['ALT-USDC', batch],
  ] as const) {
    const file = await open.venue.exportBatch({ symbol, batch: number })
    sizes.add(file.length)
    const { exported } = await auditBatch(file, identity, attested(open))
    expect([exported.symbol, exported.batch]).toEqual([symbol, number])
    expect(exported.orders.length > 0).toBe(symbol === SYMBOL && number === batch)
  }
  expect(sizes.size).toBe(1)
})

test('a batch that was never held is unknown; without an auditor nothing is exported', async () => {
  const open = await site.open({ auditor_key })
  await open.chain.tick(2)
  for (const [symbol, batch] of [
    [SYMBOL, 99],
    ['BTC-USDC', 1],
  ] as const)
    expect(await faultOf(open.venue.exportBatch({ symbol, batch }))).toBe('auction_unknown')
  await open.close()
  const without = await site.open()
  expect(await faultOf(without.venue.exportBatch({ symbol: SYMBOL, batch: 1 }))).toBe('auditor_unset')
})
