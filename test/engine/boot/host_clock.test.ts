/** A host whose wall clock is wrong by 40 days, at a start or while it runs: no history goes, and no decision changes. */
import { afterEach, expect, test } from 'bun:test'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { accountId } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

const DAYS_MS = 40 * 86_400_000

/** What alice can read of a final order, after a round of retention. */
async function read({ venue, engine }: TestVenue, order_id: string) {
  await engine.loaded.history.flush()
  await engine.loaded.history.prune(engine.clock.unixMs())
  const order = await venue.order('alice', order_id)
  const events = engine.loaded.history.events(accountId('alice'), 0, 500).items.length
  return { order, events }
}

for (const [name, off_ms] of [
  ['ahead', DAYS_MS],
  ['behind', -DAYS_MS],
] as const)
  test(`40 days ${name}: history stays, orders are accepted, stamps are the chain's`, async () => {
    site.wall_ms = Date.now()
    const began_ms = site.wall_ms
    let open = await site.open()
    const alice = await Trader.provisioned(open, 'alice')
    const deposit = alice.deposit('quote', 200_000_000n)
    await open.chain.finalizeLeaves()
    const { order_id } = await open.venue.place('alice', alice.place(deposit))
    await open.venue.cancel('alice', order_id, alice.cancel(order_id))
    const before = await read(open, order_id)
    expect(before.order.status).toBe('cancelled')

    site.wall_ms += off_ms
    expect(await read(open, order_id)).toEqual(before)
    await open.close()
    open = await site.open()
    expect((await read(open, order_id)).order).toEqual(before.order)
    site.wall_ms -= off_ms
    expect((await read(open, order_id)).order).toEqual(before.order)
    expect(open.venue.status()).toMatchObject({ ready: true, reasons: [] })

    const again = new Trader(open, 'alice')
    const second = again.deposit('quote', 200_000_000n)
    await open.chain.finalizeLeaves()
    site.wall_ms += off_ms
    const placed = await open.venue.place('alice', again.place(second))
    const order = await open.venue.order('alice', placed.order_id)
    expect(order.status).toBe('accepted')
    await open.engine.loaded.history.flush()
    const events = open.engine.loaded.history.events(accountId('alice'), 0, 500).items
    const stamp = JSON.parse(events.at(-1)!.text).unix_ms
    expect(Math.abs(stamp - began_ms)).toBeLessThan(DAYS_MS / 2)
  })

test('retention is of the chain: what is older by its clock goes at the next start', async () => {
  let open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const deposit = alice.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  const { order_id } = await open.venue.place('alice', alice.place(deposit))
  await open.venue.cancel('alice', order_id, alice.cancel(order_id))
  await open.close()
  site.unixMs = () => Date.now() + DAYS_MS
  open = await site.open()
  const { history } = open.engine.loaded
  while (history.order(order_id) !== undefined) await Bun.sleep(5)
})
