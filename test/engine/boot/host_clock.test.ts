/** A host whose wall clock is wrong by 40 days, at a start or while it runs: no history goes, and no decision changes. */
import { afterEach, expect, test } from 'bun:test'
import { Random } from '../../kit/random'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { accountId } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

const DAYS_MS = 40 * 86_400_000

/** Alice's view of a final order, after a round of retention. */
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
    const began_ms = Date.now()
    let wall_ms = began_ms
    site.wallMs = () => wall_ms
    let open = await site.open()
    const alice = await Trader.provisioned(open, 'alice')
    const deposit = alice.deposit('quote', 200_000_000n)
    await open.chain.finalizeLeaves()
    const { order_id } = await open.venue.place('alice', alice.place(deposit))
    await open.venue.cancel('alice', order_id, alice.cancel(order_id))
    const before = await read(open, order_id)
    expect(before.order.status).toBe('cancelled')

    wall_ms += off_ms
    expect(await read(open, order_id)).toEqual(before)
    await open.close()
    open = await site.open()
    expect((await read(open, order_id)).order).toEqual(before.order)
    wall_ms -= off_ms
    expect((await read(open, order_id)).order).toEqual(before.order)
    expect(open.venue.status()).toMatchObject({ ready: true, reasons: [] })

    const again = new Trader(open, 'alice')
    const second = again.deposit('quote', 200_000_000n)
    await open.chain.finalizeLeaves()
    wall_ms += off_ms
    const placed = await open.venue.place('alice', again.place(second))
    const order = await open.venue.order('alice', placed.order_id)
    expect(order.status).toBe('accepted')
    await open.engine.loaded.history.flush()
    const events = open.engine.loaded.history.events(accountId('alice'), 0, 500).items
    const stamp = JSON.parse(events.at(-1)!.text).unix_ms
    expect(Math.abs(stamp - began_ms)).toBeLessThan(DAYS_MS / 2)
  })

test('a wall clock that steps by 40 days at every reading, while orders trade and settle: nothing is lost and nothing said', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  console.log(`seed ${seed}`)
  const random = new Random(seed)
  const began_ms = Date.now()
  site.wallMs = () => began_ms + DAYS_MS * random.pick([-1, 0, 1])
  let open = await site.open()
  const [alice, bob] = [await Trader.provisioned(open, 'alice'), await Trader.provisioned(open, 'bob')]
  for (let round = 0; round < 4; round++) {
    const money = alice.deposit('quote', 200_000_000n)
    const goods = bob.deposit('base', 3_000_000_000n)
    await open.chain.finalizeLeaves()
    const { order_id } = await open.venue.place('alice', alice.place(money))
    await open.venue.place('bob', bob.place(goods, { side: 'sell' }))
    await open.chain.tick(2)
    await open.chain.settleNext()
    expect((await open.venue.order('alice', order_id)).status).toBe('filled')
    expect(open.venue.status()).toMatchObject({ ready: true, reasons: [] })
    expect(open.engine.snapshotting.failures).toBe(0)
    await open.engine.snapshotting.now()
  }
  const all = async () => {
    const { loaded, clock } = open.engine
    await loaded.history.flush()
    await loaded.history.prune(clock.unixMs())
    const events = (name: string) => loaded.history.events(accountId(name), 0, 500).items
    const page = { after: 0, limit: 500 }
    const fills = [await open.venue.fills('alice', page), await open.venue.fills('bob', page)]
    return { events: [events('alice'), events('bob')], fills, orders: await open.venue.orders('alice', page) }
  }
  const before = await all()
  expect(before.fills.map(({ items }) => items.length)).toEqual([4, 4])
  for (const events of before.events) {
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1))
    const stamps = events.map(({ text }) => JSON.parse(text).unix_ms as number)
    expect(stamps).toEqual(stamps.toSorted((one, other) => one - other))
    for (const stamp of stamps) expect(Math.abs(stamp - began_ms)).toBeLessThan(DAYS_MS / 2)
  }
  await open.close()
  open = await site.open()
  const after = await all()
  expect(after.fills).toEqual(before.fills)
  expect(after.orders).toEqual(before.orders)
  expect(after.events.map((events, at) => events.slice(0, before.events[at]!.length))).toEqual(before.events)
  expect(open.fatal).toEqual([])
})

test('retention follows the chain: rows older by its clock go at the next start', async () => {
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
  while (history.isOrder(order_id)) await Bun.sleep(5)
})
