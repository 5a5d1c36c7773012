/** Streams: durable events in order, resumed without a gap, ended with their token. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { journaledSnapshot } from '../../engine/boot/check_chain'
import type { EventSink, Session } from '../../engine/venue'
import type * as wire from '../../protocol/wire/trading'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { refusalOf } from '../kit/venue/refusal_of'
import { accountId } from '../kit/venue/test_login'
import { Trader } from '../kit/venue/trader'

const site = new TestSite()
let open: TestVenue
let alice: Trader
let session: Session

beforeAll(async () => {
  open = await site.open()
  alice = await Trader.provisioned(open, 'alice')
  session = open.venue.authenticate('alice')
})
afterAll(() => site.remove())

/** A sink that keeps its events and resolves when it holds the event of a seq. */
function collector() {
  const events: wire.AccountEvent[] = []
  const ends: string[] = []
  const waiting: { seq: number; resolve: () => void }[] = []
  const sink: EventSink = {
    events(told) {
      expect(open.engine.sequencer.seq_durable).toBe(open.engine.loaded.journal.head().seq)
      for (const { event } of told) {
        events.push(event)
        for (const waiter of waiting) if (event.seq >= waiter.seq) waiter.resolve()
      }
    },
    ended: () => void ends.push('ended'),
    bye: (reason) => void ends.push(`bye ${reason}`),
  }
  const seen = (seq: number) => {
    if ((events.at(-1)?.seq ?? 0) >= seq) return Promise.resolve()
    return new Promise<void>((resolve) => waiting.push({ seq, resolve }))
  }
  return { events, ends, sink, seen, seqs: () => events.map(({ seq }) => seq) }
}
const noGap = () => {
  throw new Error('no gap is expected')
}

async function placeAndCancel(count: number): Promise<void> {
  const requests = Array.from({ length: count }, () => alice.place(alice.deposit('quote', 200_000_000n)))
  await open.chain.finalizeLeaves()
  await Promise.all(requests.map((request) => open.venue.place('alice', request)))
  await Promise.all(
    requests.map(({ order_id }) => open.venue.cancel('alice', order_id, alice.cancel(order_id))),
  )
}

test('a stream that resumes from any seq gets every later event once, in order, and then follows', async () => {
  await placeAndCancel(4)
  const resumed = collector()
  const early = await open.venue.subscribe(session, 3, resumed.sink, noGap)
  expect(early.seq_last).toBe(9)
  const work = placeAndCancel(2)
  const whole = collector()
  const from_start = await open.venue.subscribe(session, 0, whole.sink, noGap)
  await work
  await Promise.all([resumed.seen(13), whole.seen(13)])
  expect(resumed.seqs()).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
  expect(whole.seqs()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
  expect(early.seqNow()).toBe(13)
  const { items } = await open.venue.events('alice', { after: 0, limit: 100 })
  expect(items).toEqual(whole.events)
  early.close()
  from_start.close()
})

test('a stream without a resume point begins at the present', async () => {
  const fresh = collector()
  const subscription = await open.venue.subscribe(session, undefined, fresh.sink, noGap)
  const { seq_last } = subscription
  await placeAndCancel(1)
  await fresh.seen(seq_last + 2)
  expect(fresh.seqs()).toEqual([seq_last + 1, seq_last + 2])
  subscription.close()
  await placeAndCancel(1)
  expect(fresh.events).toHaveLength(2)
})

test('the events of one group commit reach every stream in one list, before their answers', async () => {
  const lists: unknown[] = []
  const answered: number[] = []
  const sink: EventSink = { ...collector().sink, events: (events) => void lists.push(events) }
  const both = [
    await open.venue.subscribe(session, undefined, sink, noGap),
    await open.venue.subscribe(session, undefined, sink, noGap),
  ]
  await new Promise(setImmediate)
  const requests = Array.from({ length: 3 }, () => alice.place(alice.deposit('quote', 200_000_000n)))
  await open.chain.finalizeLeaves()
  lists.length = 0
  await Promise.all(
    requests.map(async (request) => {
      await open.venue.place('alice', request)
      answered.push(lists.length)
    }),
  )
  expect(lists).toHaveLength(2)
  expect(lists[0]).toBe(lists[1])
  expect(lists[0]).toHaveLength(3)
  expect(answered).toEqual([2, 2, 2])
  for (const subscription of both) subscription.close()
  await Promise.all(
    requests.map(({ order_id }) => open.venue.cancel('alice', order_id, alice.cancel(order_id))),
  )
})

test('a resume point ahead of the log is refused', async () => {
  const { sink } = collector()
  expect((await refusalOf(open.venue.subscribe(session, 10_000, sink, noGap))).code).toBe('after_invalid')
  expect((await refusalOf(open.venue.subscribe(session, -1, sink, noGap))).code).toBe('after_invalid')
})

test('the streams of one account are bounded', async () => {
  const { sink } = collector()
  const all = await Promise.all(
    Array.from({ length: 64 }, () => open.venue.subscribe(session, undefined, sink, noGap)),
  )
  const refused = await refusalOf(open.venue.subscribe(session, undefined, sink, noGap))
  expect(refused.code).toBe('connection_limit')
  const reading = { ...session, access: 'read' } as const
  all.push(await open.venue.subscribe(reading, undefined, sink, noGap))
  for (const subscription of all) subscription.close()
  const again = await open.venue.subscribe(session, undefined, sink, noGap)
  again.close()
})

test('a dead token ends its streams, and a renewed stream lives on', async () => {
  const dying = collector()
  const renewed = collector()
  await open.venue.subscribe(session, undefined, dying.sink, noGap)
  const kept = await open.venue.subscribe(session, undefined, renewed.sink, noGap)
  kept.renew({ ...session, token_id: 'newer' })
  open.accounts.kill(session.token_id)
  expect(dying.ends).toEqual(['ended'])
  expect(renewed.ends).toEqual([])
  kept.close()
})

test('events that are no longer kept are announced as a gap, the others follow', async () => {
  const { history } = open.engine.loaded
  const last = history.seqLast(accountId('alice'))
  await history.prune(Date.now() + 31 * 86_400_000)
  await placeAndCancel(1)
  const gaps: [number, number][] = []
  const late = collector()
  const subscription = await open.venue.subscribe(session, 2, late.sink, (from, to) => gaps.push([from, to]))
  await late.seen(last + 2)
  expect(gaps).toEqual([[3, subscription.seq_first - 1]])
  expect(late.seqs()[0]).toBe(subscription.seq_first)
  subscription.close()
})

test('a draining venue says goodbye, anchors its head and leaves a snapshot', async () => {
  const last = collector()
  await open.venue.subscribe(session, undefined, last.sink, noGap)
  await open.venue.drain()
  expect(last.ends).toEqual(['bye upgrade'])
  const { journal, snapshots } = open.engine.loaded
  const [anchored] = site.ledger.anchors.slice(-1)
  const { snapshot } = await snapshots.newestValid(
    async (point) => (await journaledSnapshot(journal, point))?.state_hash,
  )
  expect(snapshot).toMatchObject(anchored!)
  // Behind it follow only its hash and the release of the lease.
  expect(journal.head().seq).toBe(anchored!.seq + 2)
  expect(open.venue.status()).toMatchObject({
    ready: false,
    draining: true,
    reasons: ['draining: the venue finishes its batches for a restart'],
  })
  // The lease is given back, so not even a cancel is taken.
  const late = [alice.cancelAll()]
  expect((await refusalOf(open.venue.cancelAll('alice', late))).code).toBe('draining')
})

test('a cursor ahead of the log is refused on lists as on streams, and so is an unknown instrument', async () => {
  const page = { after: 1_000_000, limit: 10 }
  const { venue } = open
  for (const list of [venue.events('alice', page), venue.fills('alice', page), venue.orders('alice', page)]) {
    expect((await refusalOf(list)).code).toBe('after_invalid')
  }
  const unknown = venue.orders('alice', { after: 0, limit: 10, symbol: 'NO-SUCH' })
  expect((await refusalOf(unknown)).code).toBe('instrument_unknown')
})

test('an unreadable log ends the stream with a goodbye, not with silence', async () => {
  const told = collector()
  await open.engine.loaded.history.flush()
  const subscription = await open.venue.subscribe(session, 0, told.sink, noGap)
  await open.engine.loaded.history.close()
  expect(told.ends).toEqual(['bye restart'])
  expect(subscription.seqNow()).toBe(0)
  expect(open.engine.hub.size()).toBe(0)
  expect(open.venue.status().reasons.join()).toContain('read models failed')
  expect(open.venue.status().ready).toBe(false)
})
