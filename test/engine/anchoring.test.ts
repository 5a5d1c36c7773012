/** The journal head on chain: what makes an older disk recognisable. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TestSite, type TestVenue } from './open_test_venue'
import { Trader } from './trader'

const site = new TestSite()
let open: TestVenue
let trader: Trader

beforeAll(async () => {
  open = await site.open()
  trader = await Trader.provisioned(open, 'alice')
})
afterAll(() => site.remove())

test('a head that clients depend on is dirty until it is anchored', async () => {
  const { anchoring, loaded } = open.engine
  expect(anchoring.isDirty()).toBe(true)
  await anchoring.now()
  expect(site.ledger.anchors.at(-1)).toEqual(loaded.journal.head())
  expect(anchoring.isDirty()).toBe(false)
})

test('slots alone do not make it dirty again, an order does', async () => {
  const { anchoring, sequencer } = open.engine
  open.chain.tick(3)
  await sequencer.durable()
  expect(anchoring.isDirty()).toBe(false)
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', request)
  expect(anchoring.isDirty()).toBe(true)
})

test('a cluster that does not answer leaves it dirty', async () => {
  const { anchoring } = open.engine
  open.chain.anchor_fails = true
  expect(anchoring.now()).rejects.toThrow('does not answer')
  expect(anchoring.isDirty()).toBe(true)
  open.chain.anchor_fails = false
  await anchoring.now()
  expect(anchoring.isDirty()).toBe(false)
})

test('a settlement that carried the head needs no anchor besides', async () => {
  const { anchoring } = open.engine
  await open.venue.deadMan('alice', trader.deadMan(0))
  expect(anchoring.isDirty()).toBe(true)
  const { seq, head } = open.engine.loaded.journal.head()
  site.ledger.config = { ...site.ledger.config, journal_seq: seq, journal_head: head }
  const { length } = site.ledger.anchors
  await anchoring.now()
  expect(site.ledger.anchors).toHaveLength(length)
  expect(anchoring.isDirty()).toBe(false)
})
