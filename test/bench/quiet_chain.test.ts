/** The chain of the benches does not stall on a loaded machine, so no bench is rejected with `reopening`. */
import { expect, test } from 'bun:test'
import { inFolder } from '../../bench/kit/figures'
import { accountOf, elementNamed } from '../../bench/venue/bench_config'
import { openEngine } from '../../bench/venue/open_engine'
import { restOrders } from '../../bench/venue/rest_orders'
import { LIMITS } from '../../engine/limits'

test('a venue that does not run for longer than a stall of the chain goes on trading', () =>
  inFolder('quiet-chain', async (dir) => {
    const slot_ms = 100
    const open = await openEngine(dir, slot_ms)
    const { state, sequencer } = open.engine
    await sequencer.submit({
      kind: 'account_record',
      account_id: accountOf(0),
      account_key: elementNamed('account'),
      version: 1,
      state: 'active',
      limits: { rate_capacity: 1, rate_refill_per_s: 1, orders_live_max: 1, keys_max: 1 },
      signature: new Uint8Array(64),
    })
    const { slot } = open.chain.view()
    Bun.sleepSync(2 * Math.max(LIMITS.stall_min_ms, LIMITS.stall_slots * slot_ms))
    while (open.chain.view().slot === slot) await Bun.sleep(slot_ms)
    await restOrders(open, 1)
    expect([state.orders.size, state.reopens_slot]).toEqual([1, 0])
    await open.venue.close()
  }))
