/** A restore from the chain over folders of a lost venue: nothing of it counts, and nothing of the new journal is missing. */
import { afterEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

/** Two orders that match at the next close. */
async function crossed(open: TestVenue, alice: Trader, bob: Trader): Promise<void> {
  const buy = alice.place(alice.deposit('quote', 200_000_000n))
  const sell = bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell' })
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', buy)
  await open.venue.place('bob', sell)
  await open.chain.tick(2)
}

/** A venue that is gone: one batch has landed, and with `hashed` another one has not. */
async function lost(hashed: boolean): Promise<void> {
  const open = await site.open()
  const [alice, bob] = [await Trader.provisioned(open, 'alice'), await Trader.provisioned(open, 'bob')]
  await crossed(open, alice, bob)
  await open.chain.settleNext()
  if (hashed) {
    await crossed(open, alice, bob)
    await open.engine.pump.idle()
    await open.chain.outbox.waitForPayload(2)
    expect(open.engine.hash.spent().batch_count).toBe(2)
  }
  await open.engine.anchoring.now()
  await open.close()
  expect(site.ledger.config.last_batch).toBe(1)
}

function announce(): void {
  const { ledger } = site
  ledger.config = { ...ledger.config, pending: [{ action: 'authorize_restore', effective_at_s: 1 }] as never }
  // As the program does.
  ledger.sent_opening = async () => {
    if (ledger.config.pending.length === 0) return
    ledger.config = { ...ledger.config, pending: [], generation: ledger.config.generation + 1 }
  }
}

const ALL = ['journal', 'snapshots', 'stores', 'history', 'facts', 'trees']
test.each([
  ['everything', false, ALL],
  ['the journal', false, ['journal']],
  ['the journal', true, ['journal']],
  ['all but read models and trees', true, ['journal', 'snapshots', 'stores']],
  ['all but the trees', true, ALL.filter((one) => one !== 'trees')],
] as const)(
  '%s is gone, with a hashed batch (%p): every order and event of the new journal is read, also after a start',
  async (_, hashed, gone) => {
    await lost(hashed)
    for (const folder of gone) rmSync(join(site.dir, folder), { recursive: true })
    announce()
    const open = await site.open()
    expect(open.venue.status()).toMatchObject({ ready: true, matching: 'running' })
    const carol = await Trader.provisioned(open, 'carol')
    const deposits = Array.from({ length: 30 }, () => carol.deposit('quote', 200_000_000n))
    await open.chain.finalizeLeaves()
    const orders = deposits.map((deposit) => carol.place(deposit, { price_limit: '50000000' }))
    for (const order of orders) await open.venue.place('carol', order)
    await open.engine.snapshotting.now()
    expect([open.engine.snapshotting.failures, open.fatal]).toEqual([0, []])
    await open.engine.anchoring.now()
    await open.close()
    site.ledger.sent_opening = async () => {}
    const again = await site.open()
    expect(again.venue.status()).toMatchObject({ ready: true })
    const { items } = await again.venue.events('carol', { after: 0, limit: 100 })
    expect(items.filter(({ kind }) => kind === 'order.accepted')).toHaveLength(orders.length)
    for (const { order_id } of orders)
      expect(await again.venue.order('carol', order_id)).toMatchObject({ status: 'accepted' })
  },
  60_000,
)
