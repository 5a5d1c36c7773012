/** The journal head on chain, by which an older disk is recognised. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import { Anchoring } from '../../../engine/sequencer/anchoring'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'

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
  await open.chain.tick(3)
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

test('a settlement that carried the head needs no further anchor', async () => {
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

test('while settlements carry the head there is no other anchor; records that they leave for 18 s are anchored', async () => {
  const { ledger } = site
  const { config } = ledger
  const { head } = open.engine.loaded.journal.head()
  const seq = 1_000
  let now_ms = 0
  const anchoring = new Anchoring(
    open.chain,
    () => ({ seq, head }),
    () => now_ms,
    30_000,
  )
  const { length } = ledger.anchors
  const settled = (journal_seq: number) => {
    ledger.config = { ...ledger.config, journal_seq }
  }
  settled(seq - 100)
  for (let at = 0; at <= 60; at++) {
    now_ms = at * 1_000
    anchoring.dirty(seq - 99 + at)
    // The position of a settlement is final 15 s later.
    if (at >= 15) settled(seq - 99 + at - 15)
    await anchoring.due()
  }
  expect(ledger.anchors).toHaveLength(length)

  // The last one is carried by none: it is anchored at 18 s, not before.
  now_ms = 77_000
  expect(anchoring.ageMs()).toBe(30_000 + 1_000)
  settled(seq - 40)
  await anchoring.due()
  expect(ledger.anchors).toHaveLength(length)
  now_ms = 78_000
  await anchoring.due()
  expect(ledger.anchors).toHaveLength(length + 1)
  expect(anchoring.isDirty()).toBe(false)
  expect(anchoring.ageMs()).toBe(0)
  anchoring.stop()
  ledger.config = config
})

test('a position that is shown once and disproved later covers nothing for long', async () => {
  let [shown, sent, now_ms] = [500, 0, 0]
  const chain = {
    lease: () => ({ age_ms: 0, covered_seq: shown, restore_announced: false }),
    anchor: async () => {
      sent += 1
    },
  }
  const head = () => ({ seq: 500, head: new Uint8Array(32) })
  const anchoring = new Anchoring(chain, head, () => now_ms, 30_000)
  anchoring.dirty(500)
  now_ms += 60_000
  await anchoring.due()
  expect(sent).toBe(0)
  shown = 10
  anchoring.dirty(501)
  now_ms += 60_000
  await anchoring.due()
  expect(sent).toBe(1)
  anchoring.stop()
})

test('records of one moment after another do not make the oldest of them younger', () => {
  let now_ms = 0
  const chain = {
    lease: () => ({ age_ms: 0, covered_seq: 0, restore_announced: false }),
    anchor: async () => undefined,
  }
  const head = () => ({ seq: 500, head: new Uint8Array(32) })
  const anchoring = new Anchoring(chain, head, () => now_ms, 30_000)
  for (; now_ms <= 30_000; now_ms += LIMITS.anchor_mark_ms - 1) anchoring.dirty(now_ms + 1)
  expect([anchoring.ageMs(), anchoring.isOverdue()]).toEqual([now_ms, true])
  anchoring.stop()
})

test('a record that nothing covers ends acknowledgements, with the reason, until an anchor lands', async () => {
  const { anchoring } = open.engine
  await anchoring.now()
  const ready = () => open.venue.status()
  expect(ready().reasons.join()).not.toContain('unanchored')
  await open.venue.deadMan('alice', trader.deadMan(0))
  expect(ready()).toMatchObject({ ready: true })
  site.later_ms += open.config.anchor_max_ms
  expect(ready()).toMatchObject({ ready: false })
  expect(ready().reasons.join()).toContain('unanchored: the journal position on chain is too old')
  const refused = await refusalOf(open.venue.deadMan('alice', trader.deadMan(0)))
  expect([refused.code, refused.status, refused.applied]).toEqual(['unanchored', 503, 'no'])
  await anchoring.now()
  expect(ready().reasons).toEqual(['reopening: the chain stalled; cancels continue'])
  await open.venue.deadMan('alice', trader.deadMan(0))
  // No slot came for as long.
  for (let slots = 0; slots <= open.config.reopen_slots; slots++) await open.chain.tick(1)
  expect(ready()).toMatchObject({ ready: true })
})

test('an announced restore makes the next slot worth an anchor, also of a venue that matches nothing', async () => {
  const { anchoring, sequencer } = open.engine
  const { ledger } = site
  await anchoring.now()
  const { config } = ledger
  const restore = { action: 'authorize_restore', effective_unix_s: 1, value: '1' } as const
  ledger.config = { ...config, pending: [restore] }
  const dirtyBehindASlot = async () => {
    await open.chain.tick(1)
    await sequencer.durable()
    return anchoring.isDirty()
  }
  for (const reason of ['vault_paused', 'root_mismatch'] as const) {
    await sequencer.submit({ kind: 'halted', reason })
    await anchoring.now()
    expect(await dirtyBehindASlot()).toBe(true)
    await sequencer.submit({ kind: 'resumed' })
    await anchoring.now()
  }
  // The anchor made it void.
  ledger.config = { ...ledger.config, pending: [] }
  expect(await dirtyBehindASlot()).toBe(false)
})
