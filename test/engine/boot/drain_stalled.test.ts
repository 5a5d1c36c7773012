/** A drain while the disk stalls: what may still become durable is answered as unknown. */
import { afterEach, expect, test } from 'bun:test'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../../../engine/limits'
import { TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
const { stop_landing_ms, stop_anchor_ms } = LIMITS
afterEach(async () => {
  Object.assign(LIMITS, { stop_landing_ms, stop_anchor_ms })
  await site.remove()
})

test('an order that waits for the disk as the drain ends is not answered as one that was rejected', async () => {
  Object.assign(LIMITS, { stop_landing_ms: 150, stop_anchor_ms: 100 })
  const stalled = join(site.dir, 'stalled')
  const open = await site.open({}, site.dir, { while: { exists: stalled, trouble: 'sync_lasts' } })
  const alice = await Trader.provisioned(open, 'alice')
  const order = alice.place(alice.deposit('quote', 200_000_000n), { price_limit: '50000000' })
  await open.chain.finalizeLeaves()
  await open.engine.sequencer.durable()
  // No snapshot waits for the journal.
  open.engine.loaded.history.sync = () => Promise.reject(new Error('EIO'))
  writeFileSync(stalled, '')
  const answer = open.venue.place('alice', order).catch((error) => error.code)
  await Bun.sleep(50)
  await open.venue.drain()
  rmSync(stalled)
  expect(await answer).toBe('outcome_unknown')
  await open.close()
  const { engine } = await site.open()
  expect([...engine.state.orders.keys()]).toEqual([order.order_id])
}, 60_000)
