/** Texts are sent as they are kept, so every shape the engine makes must be the one the document declares. */
import { afterEach, expect, test } from 'bun:test'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { AccountEvent, Fill, Order, page, Reshape, Withdrawal } from '../../../protocol/wire/trading'
import { type TSchema, t } from '../../../protocol/wire/values'
import { TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

function fits(schema: TSchema, text: string): void {
  expect([...TypeCompiler.Compile(schema).Errors(JSON.parse(text))]).toEqual([])
}

test('every event, order, fill, withdrawal and reshape of a trading day fits the document', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const money = alice.deposit('quote', 400_000_000n)
  const more = alice.deposit('quote', 400_000_000n)
  const kept = alice.deposit('base', 5_000_000n)
  const split = alice.deposit('base', 5_000_000n)
  const goods = bob.deposit('base', 2_000_000_000n)
  await open.chain.finalizeLeaves()
  const { venue } = open
  const buy = alice.place(money)
  await venue.place('alice', buy)
  await venue.place('bob', bob.place(goods, { side: 'sell' }))
  const rest = alice.place(more)
  await venue.place('alice', rest)
  const withdrawn = await venue.withdraw('alice', alice.withdrawal(kept, 2_000_000n))
  const reshaped = await venue.reshape('alice', alice.reshape([split], [2_000_000n, 3_000_000n]))
  await venue.cancel('alice', rest.order_id, alice.cancel(rest.order_id))
  await open.chain.tick(2)
  await open.chain.settleNext()
  await open.chain.settleNext()

  const { own } = venue
  const all = { after: 0, limit: 500 }
  const kinds = new Set<string>()
  for (const account of ['alice', 'bob']) {
    const events = own.events(account, all)
    fits(page(AccountEvent), events)
    for (const { kind } of JSON.parse(events).items) kinds.add(kind)
    fits(page(Order), own.orders(account, all))
    fits(page(Fill), own.fills(account, all))
    fits(t.Array(Order), (await own.snapshot(account)).orders)
  }
  fits(Order, own.order('alice', buy.order_id))
  fits(Withdrawal, own.withdrawal('alice', withdrawn.withdrawal_id))
  fits(Reshape, own.reshape('alice', reshaped.reshape_id))
  for (const kind of [
    'order.filled',
    'order.cancelled',
    'fill.finalized',
    'withdrawal.finalized',
    'withdrawal.paid',
    'note.created',
  ])
    expect(kinds).toContain(kind)
})
