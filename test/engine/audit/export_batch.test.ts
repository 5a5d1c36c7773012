/** The operator has a batch exported; only the auditor reads it, and it recomputes to the venue's record. */
import { afterEach, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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

const site = new TestSite()
afterEach(() => site.remove())

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
    (error: Error & { code?: string }) =>
      (error.name === 'Refusal' ? error.code : undefined) ?? error.message,
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
  // Neither the file nor its decrypted content names a trader.
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

test('a void batch is unknown to its members, too, and its orders are members of the next one', async () => {
  const open = await site.open({ auditor_key })
  const { alice } = await traders(open)
  const order = alice.place(alice.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', order)
  site.ledger.withheld = true
  await open.chain.tick(2)
  while (open.chain.sent === undefined) await Bun.sleep(1)
  const { batch } = open.engine.state.closed!.due[0]!
  expect(await faultOf(open.venue.exportBatch({ symbol: SYMBOL, batch }))).toBe('auction_unknown')
  site.ledger.withheld = false
  open.chain.voidCommit()
  await open.chain.decided()
  expect(await faultOf(open.venue.exportBatch({ symbol: SYMBOL, batch }))).toBe('auction_unknown')
  await open.chain.tick(2)
  const file = await open.venue.exportBatch({ symbol: SYMBOL, batch: batch + 1 })
  const { exported } = await auditBatch(file, identity, attested(open))
  expect(exported.orders).toMatchObject([{ order_id: order.order_id, arrival_batch: batch }])
})

test('members are the orders at the close: a later order is none, and a cancelled one stays one', async () => {
  const open = await site.open({ auditor_key })
  const { alice } = await traders(open)
  const [early, late] = [1, 2].map(() => alice.place(alice.deposit('quote', 200_000_000n))) as [
    PlaceRequest,
    PlaceRequest,
  ]
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', early)
  site.ledger.withheld = true
  await open.chain.tick(2)
  while (open.chain.sent === undefined) await Bun.sleep(1)
  const { batch } = open.engine.state.closed!.due[0]!
  await open.venue.place('alice', late)
  const cancel = open.venue.cancel('alice', early.order_id, alice.cancel(early.order_id))
  await open.engine.sequencer.durable()
  site.ledger.withheld = false
  open.chain.landCommit()
  await open.chain.decided()
  await cancel
  const membersOf = async (number: number) => {
    const file = await open.venue.exportBatch({ symbol: SYMBOL, batch: number })
    return (await auditBatch(file, identity, attested(open))).exported.orders.map(({ order_id }) => order_id)
  }
  expect(await membersOf(batch)).toEqual([early.order_id])
  await open.chain.tick(2)
  expect(await membersOf(batch + 1)).toEqual([late.order_id])
})

test('matching goes on while a batch is exported, and a second export waits its turn', async () => {
  const open = await site.open({ auditor_key })
  const people = await traders(open)
  await tradedBatch(open, people)
  const batch = await batchOf(open)
  let ended = false
  const file = open.venue.exportBatch({ symbol: SYMBOL, batch }).finally(() => {
    ended = true
  })
  expect(await faultOf(open.venue.exportBatch({ symbol: SYMBOL, batch }))).toBe('export_busy')
  const nextBatch = () => open.engine.state.instruments.get(SYMBOL)!.next_batch
  const [first, seq] = [nextBatch(), open.engine.sequencer.seq_durable]
  let held = 0
  while (!ended) {
    await open.chain.tick(2)
    if (!ended) held = nextBatch() - first
  }
  expect(held).toBeGreaterThan(2)
  expect(open.engine.sequencer.seq_durable).toBeGreaterThanOrEqual(seq + 2 * held)
  expect((await auditBatch(await file, identity, attested(open))).exported.batch).toBe(batch)
  expect((await open.venue.exportBatch({ symbol: SYMBOL, batch })).length).toBeGreaterThan(2 ** 20)
})

test('an earlier run’s batch is exported, from a snapshot too; behind pruned segments it is unknown', async () => {
  const before = await site.open({ auditor_key })
  await tradedBatch(before, await traders(before))
  const batch = await batchOf(before)
  await before.close()
  const open = await site.open({ auditor_key })
  const again = await auditBatch(
    await open.venue.exportBatch({ symbol: SYMBOL, batch }),
    identity,
    attested(open),
  )
  expect(again.recomputed.volume_lots).toBe(1_500)
  const nextBatch = () => open.engine.state.instruments.get(SYMBOL)!.next_batch
  const unled = nextBatch()
  await open.chain.tick(2)
  await open.engine.snapshotting.now()
  const { newest } = open.engine.snapshotting
  expect(newest).toBeDefined()
  const next = nextBatch()
  await open.chain.tick(2)
  await open.engine.loaded.journal.retire(newest!.seq + 1)
  expect(open.engine.loaded.journal.firstSeq()).toBeGreaterThan(1)
  const { exported } = await auditBatch(
    await open.venue.exportBatch({ symbol: SYMBOL, batch: next }),
    identity,
    attested(open),
  )
  // Orders that rest since the first run.
  expect(exported.orders.length).toBeGreaterThan(0)
  // One is in a retired segment, the other in a kept one before the snapshot.
  for (const lost of [batch, unled])
    expect(await faultOf(open.venue.exportBatch({ symbol: SYMBOL, batch: lost }))).toBe('auction_unknown')
})

test('a damaged journal is exported to no one, and the venue goes on', async () => {
  const open = await site.open({ auditor_key })
  await tradedBatch(open, await traders(open))
  const batch = await batchOf(open)
  const [segment] = readdirSync(join(site.dir, 'journal')).filter((name) => name.endsWith('.segment'))
  const path = join(site.dir, 'journal', segment!)
  const bytes = readFileSync(path)
  bytes[2_000]! ^= 1
  writeFileSync(path, bytes, { flag: 'r+' })
  const fault = await faultOf(open.venue.exportBatch({ symbol: SYMBOL, batch }))
  expect(fault).toMatch(/^the export failed: journal damaged/)
  await open.chain.tick(2)
  expect(open.fatal).toEqual([])
})

test('an export leaves no file behind, and nothing on the disk shows an order or a trader in clear', async () => {
  const open = await site.open({ auditor_key })
  const people = await traders(open)
  const placed = await tradedBatch(open, people)
  const files = () =>
    (readdirSync(site.dir, { recursive: true }) as string[]).filter(
      // The journal prepares its next segment meanwhile.
      (name) => !name.startsWith('journal/spare.') && statSync(join(site.dir, name)).isFile(),
    )
  const before = files().sort()
  await open.venue.exportBatch({ symbol: SYMBOL, batch: await batchOf(open) })
  expect(files().sort()).toEqual(before)
  const marks = [
    ...Object.values(people).map(({ key }) => key),
    ...placed.map(({ order_id }) => fromHex(order_id, 16)!),
    ...placed.map(({ order_id }) => utf8(order_id)),
  ]
  for (const name of before) {
    const content = readFileSync(join(site.dir, name))
    for (const mark of marks) expect([name, content.includes(mark)]).toEqual([name, false])
  }
})
