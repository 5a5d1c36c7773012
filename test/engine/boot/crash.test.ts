/** After a sudden death everything acknowledged is there, and cancels armed by sockets get their grace period. */
import { afterEach, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { isAtRest, TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

/** The folder as a crash leaves it on disk now. */
function crash(): string {
  const left = `${site.dir}/left`
  cpSync(`${site.dir}/journal`, `${left}/journal`, { recursive: true, filter: isAtRest })
  return left
}

test('everything acknowledged survives a death at any moment', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const requests = Array.from({ length: 40 }, () => trader.place(trader.deposit('quote', 200_000_000n)))
  await open.chain.finalizeLeaves()
  const acknowledged: string[] = []
  let left = ''
  await Promise.all(
    requests.map(async (request, at) => {
      for (let turn = 0; turn < at; turn++) await new Promise((resolve) => setImmediate(resolve))
      const { order_id } = await open.venue.place('alice', request)
      if (acknowledged.push(order_id) === 20) left = crash()
    }),
  )
  const promised = acknowledged.slice(0, 20)
  await open.close()

  const again = await site.open({}, left)
  const { orders } = await again.venue.snapshot('alice')
  const found = new Set(orders.map(({ order_id }) => order_id))
  expect(promised.filter((order_id) => !found.has(order_id))).toEqual([])
  const { items } = await again.venue.events('alice', { after: 0, limit: 500 })
  expect(items.map(({ seq }) => seq)).toEqual(items.map((_, at) => at + 1))
})

test('orders of a socket that died with the process are cancelled when its trader stays away', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.armDisconnect('alice', 'socket-1', true)
  await open.venue.place('alice', request, 'socket-1')
  const left = crash()
  await open.close()

  const again = await site.open({}, left)
  expect((await again.venue.order('alice', request.order_id)).status).toBe('accepted')
  await again.engine.grace.fire('')
  const order = await again.venue.order('alice', request.order_id)
  expect(order).toMatchObject({ status: 'cancelled', reason: 'disconnect' })
})

test('a trader who comes back within the grace keeps the orders', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.armDisconnect('alice', 'socket-1', true)
  await open.venue.place('alice', request, 'socket-1')
  const left = crash()
  await open.close()

  const again = await site.open({}, left)
  await again.venue.armDisconnect('alice', 'socket-2', true)
  await again.engine.grace.fire('')
  expect((await again.venue.order('alice', request.order_id)).status).toBe('accepted')
})

test('a planned stop does not fire cancel-on-disconnect', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.armDisconnect('alice', 'socket-1', true)
  await open.venue.place('alice', request, 'socket-1')
  await open.venue.drain()
  await open.venue.disconnected('alice', 'socket-1')
  expect((await open.venue.order('alice', request.order_id)).status).toBe('accepted')
})

test('a socket that closes while armed takes its own orders along, pending ones included, and no others', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const own = trader.place(trader.deposit('quote', 200_000_000n))
  const other = trader.place(trader.deposit('quote', 200_000_000n))
  const pending = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.armDisconnect('alice', 'socket-1', true)
  await open.venue.place('alice', own, 'socket-1')
  await open.venue.place('alice', other)
  const placing = open.venue.place('alice', pending, 'socket-1')
  await Promise.all([placing, open.venue.disconnected('alice', 'socket-1')])
  for (const { order_id } of [own, pending])
    expect(await open.venue.order('alice', order_id)).toMatchObject({
      status: 'cancelled',
      reason: 'disconnect',
    })
  expect((await open.venue.order('alice', other.order_id)).status).toBe('accepted')
})
