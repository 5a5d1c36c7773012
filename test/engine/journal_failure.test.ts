/** A journal that cannot write ends the venue: nothing is served from a memory that may be ahead of the disk. */
import { afterAll, expect, test } from 'bun:test'
import { TestSite } from './open_test_venue'
import { refusalOf } from './refusal_of'
import { Trader } from './trader'

const site = new TestSite()
afterAll(() => site.remove())

test('a failed write answers internal, reports once and refuses everything after', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const first = alice.place(alice.deposit('quote', 200_000_000n))
  const second = alice.place(alice.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.engine.loaded.journal.close()
  const answers = await Promise.all([
    refusalOf(open.venue.place('alice', first)),
    refusalOf(open.venue.place('alice', second)),
  ])
  expect(answers.map(({ code }) => code)).toEqual(['internal', 'internal'])
  expect(open.fatal).toHaveLength(1)
  expect((await refusalOf(open.venue.place('alice', first))).code).toBe('matching_unavailable')
  expect((await refusalOf(open.venue.order('alice', first.order_id))).code).toBe('order_unknown')
  expect((await refusalOf(open.venue.nonces('alice', alice.trading_key))).code).toBe('internal')
  expect(open.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
})
