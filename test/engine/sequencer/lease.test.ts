/** The right to acknowledge: without a fresh view of the own epoch nothing is answered, matched or shown. */
import { afterEach, expect, test } from 'bun:test'
import { loadState } from '../../../engine/boot/load_state'
import { LIMITS } from '../../../engine/limits'
import type { EventSink } from '../../../engine/venue'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

async function trading(): Promise<{ open: TestVenue; alice: Trader }> {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  return { open, alice }
}
async function funded(open: TestVenue, trader: Trader) {
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  return request
}
const turn = () => new Promise((resolve) => setImmediate(resolve))
const lose = ({ chain, config }: TestVenue) => {
  chain.lease_age_ms = config.lease_ms + 1
}
const regain = ({ chain }: TestVenue) => {
  chain.lease_age_ms = 0
}
/** Everything is on disk and not released. */
async function held({ chain, engine: { loaded, sequencer } }: TestVenue): Promise<void> {
  while (chain.lease_age_ms === 0 || loaded.journal.head().seq < sequencer.seq_executed) await turn()
}
/** Places and loses the lease before the record is on disk. */
async function placedWithoutLease(open: TestVenue, request: ReturnType<Trader['place']>) {
  const { sequencer } = open.engine
  const executed = sequencer.seq_executed
  const answer = open.venue.place('alice', request).then(
    (result) => ({ result, refusal: undefined }),
    (refusal) => ({ result: undefined, refusal }),
  )
  while (sequencer.seq_executed === executed) await turn()
  lose(open)
  return answer
}

test('without a lease every command is refused with the reason, reads go on, and nothing is matched', async () => {
  const { open, alice } = await trading()
  const resting = await funded(open, alice)
  await open.venue.place('alice', resting)
  lose(open)
  const attempts = [
    () => open.venue.place('alice', alice.place(alice.deposit('quote', 200_000_000n))),
    () => open.venue.cancel('alice', resting.order_id, alice.cancel(resting.order_id)),
    () => open.venue.deadMan('alice', alice.deadMan(0)),
  ]
  for (const attempt of attempts) {
    const { code, status, applied } = await refusalOf(attempt())
    expect([code, status, applied]).toEqual(['lease_lost', 503, 'no'])
  }
  expect(open.venue.status()).toMatchObject({ ready: false })
  expect(open.venue.status().reasons.join()).toContain('lease_lost')
  expect((await open.venue.order('alice', resting.order_id)).status).toBe('accepted')
  const { slot } = open.engine.state
  open.chain.tick(5)
  await turn()
  expect(open.engine.state.slot).toBe(slot)
  regain(open)
  expect(open.venue.status()).toMatchObject({ ready: true, reasons: [] })
  open.chain.tick(1)
  expect(open.engine.state.slot).toBe(slot + 6)
})

test('a command that is durable and lost its right to be released waits, is answered as unknown, and its resend finds it', async () => {
  const { open, alice } = await trading()
  const request = await funded(open, alice)
  const answer = placedWithoutLease(open, request)
  await held(open)
  await Bun.sleep(3 * LIMITS.release_look_ms)
  const read = () => refusalOf(open.venue.nonces('alice', alice.trading_key) as Promise<unknown>)
  const nonces = read()
  site.later_ms += LIMITS.outcome_unknown_after_ms
  const { refusal } = (await answer) as { refusal: Awaited<ReturnType<typeof refusalOf>> }
  expect([refusal.code, refusal.status, refusal.applied]).toEqual(['outcome_unknown', 503, 'unknown'])
  // Dependent answers are not shown either.
  expect((await nonces).code).toBe('lease_lost')
  // Asked by now, it does not wait.
  expect((await read()).code).toBe('lease_lost')
  expect((await refusalOf(open.venue.order('alice', request.order_id))).code).toBe('order_unknown')
  regain(open)
  await open.engine.sequencer.durable()
  expect((await open.venue.order('alice', request.order_id)).status).toBe('accepted')
  const resent = await refusalOf(open.venue.place('alice', request))
  expect(resent.code).toBe('order_exists')
  expect(resent.facts.result).toMatchObject({ order_id: request.order_id, receipt: { epoch: 1, index: 0 } })
  // Records on their way to the disk now are waited for again.
  open.chain.tick(1)
  expect(await open.venue.nonces('alice', alice.trading_key)).toMatchObject({ place_nonce: request.nonce })
})

test('a lease that returns in time releases the answer', async () => {
  const { open, alice } = await trading()
  const answer = placedWithoutLease(open, await funded(open, alice))
  await held(open)
  regain(open)
  expect((await answer).result).toMatchObject({ status: 'accepted' })
})

test('an epoch that is lost meanwhile answers at once, and the next boot has the command', async () => {
  const { open, alice } = await trading()
  const request = await funded(open, alice)
  const answer = placedWithoutLease(open, request)
  await held(open)
  open.chain.sink.halted('forked')
  const { refusal } = (await answer) as { refusal: Awaited<ReturnType<typeof refusalOf>> }
  expect([refusal.code, refusal.applied]).toEqual(['outcome_unknown', 'unknown'])
  await open.close()
  const loaded = await loadState(open.config, { keys: site.keys, chain: open.chain }, site.ledger.config)
  expect(loaded.verdict.fault).toBeUndefined()
  expect(loaded.state.orders.size).toBe(1)
  await loaded.journal.close()
  await loaded.history.close()
  loaded.facts.close()
})

test('a cancel that waits for its batch is no longer answered as pending once the lease or the epoch is lost', async () => {
  for (const end of [lose, ({ chain }: TestVenue) => chain.sink.halted('forked')]) {
    const { open, alice } = await trading()
    const resting = await funded(open, alice)
    await open.venue.place('alice', resting)
    site.ledger.withheld = true
    await open.chain.tick(2)
    await open.engine.sequencer.durable()
    const answer = refusalOf(open.venue.cancel('alice', resting.order_id, alice.cancel(resting.order_id)))
    await turn()
    await open.engine.sequencer.durable()
    end(open)
    const { code, applied } = await answer
    expect([code, applied]).toEqual(['outcome_unknown', 'unknown'])
    await site.remove()
  }
}, 120_000)

test('records on their way to the disk during a drain are not released without a lease', async () => {
  const { open, alice } = await trading()
  const resting = await funded(open, alice)
  await open.venue.place('alice', resting)
  const { snapshotting, loaded } = open.engine
  const synced = Promise.withResolvers<void>()
  const append = loaded.journal.append.bind(loaded.journal)
  loaded.journal.append = async (...group) => {
    const appended = await append(...group)
    await synced.promise
    return appended
  }
  let answer: Promise<{ code: string }> | undefined
  // The last moment at which a cancel is accepted.
  const stop = snapshotting.stop.bind(snapshotting)
  snapshotting.stop = async () => {
    answer = refusalOf(open.venue.cancel('alice', resting.order_id, alice.cancel(resting.order_id)))
    await turn()
    await stop()
  }
  const drained = open.venue.drain()
  while (open.venue.status().matching !== 'stopped') await turn()
  lose(open)
  synced.resolve()
  await held(open)
  site.later_ms += LIMITS.outcome_unknown_after_ms
  expect((await answer!).code).toBe('outcome_unknown')
  await drained
}, 120_000)

test('a new epoch serves when the lease of the one before is over, and at once when that was released', async () => {
  const lease_ms = 400
  await (await site.open({ lease_ms })).close()
  // It counts from the confirmation of the new epoch, here so late that the boot before it takes less even on a busy machine.
  site.ledger.confirmed_ms = performance.now() + 5_000
  const second = await site.open({ lease_ms })
  expect(performance.now() - site.ledger.confirmed_ms).toBeGreaterThanOrEqual(lease_ms * LIMITS.lease_wait)
  await second.venue.drain()
  await second.close()
  site.ledger.confirmed_ms = Number.MAX_SAFE_INTEGER
  const third = await site.open({ lease_ms })
  expect(third.venue.status()).toMatchObject({ ready: true })
})

test('after a stall the status names the slot from which orders are accepted again', async () => {
  const { open, alice } = await trading()
  const deposit = alice.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  expect(open.venue.status()).toMatchObject({ ready: true })
  await open.chain.tick(1_000)
  const { slot, reopens_slot } = open.engine.state
  expect(reopens_slot).toBe(slot + open.config.reopen_slots)
  expect(open.venue.status()).toMatchObject({ ready: false, reopens_slot })
  expect(open.venue.status().reasons.join()).toContain('reopening')
  const request = alice.place(deposit)
  const { code, facts } = await refusalOf(open.venue.place('alice', request))
  expect([code, facts.reopens_slot]).toEqual(['reopening', reopens_slot])
  for (let at = slot; at < reopens_slot; at++) await open.chain.tick(1)
  expect(open.venue.status()).toMatchObject({ ready: true, reasons: [] })
  expect(open.venue.status()).not.toHaveProperty('reopens_slot')
  await open.venue.place('alice', request)
})

test('the loss of the epoch ends every stream at once with a bye', async () => {
  const { open } = await trading()
  const ends: string[] = []
  const sink: EventSink = {
    events: () => undefined,
    ended: () => void ends.push('ended'),
    bye: (reason) => void ends.push(`bye ${reason}`),
  }
  await open.venue.subscribe(open.venue.authenticate('alice'), undefined, sink, () => undefined)
  expect(open.engine.hub.size()).toBe(1)
  open.engine.halt('forked')
  expect(ends).toEqual(['bye restart'])
  expect(open.engine.hub.size()).toBe(0)
  expect(open.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
})
