/**
 * The worst pause of the venue's event loop under load: `bun bench/pauses.ts [--orders N] [--rate N]`. Open loop, buys and
 * sells that cross in every batch, so auctions are held, notes hashed and settlement batches landed meanwhile.
 */

import { runBench, startChild } from './kit/child_process'
import { type Figure, numbers } from './kit/figures'
import { syncLimit, verifyLimit } from './kit/machine_limits'
import type { LoadReport } from './load/load_process'
import { openLoopGauge } from './venue/gauges'
import type { VenueFacts, VenueUsage } from './venue/venue_process'

const { orders, rate } = numbers({ orders: 8_192, rate: 1_000 })
const venue = startChild('venue/venue_process.ts')
const generator = startChild('load/load_process.ts')

await runBench('pauses', [venue, generator], async (dir) => {
  const figures: Figure[] = []
  const facts = await venue.ask<VenueFacts>('start', {
    dir,
    notes: orders,
    two_sided: true,
    through_tree: true,
  })
  const { venue: id, tokens, slot, port } = facts
  await venue.ask('feelLoop')
  await generator.ask('signPlaces', {
    notes: orders,
    from: 0,
    count: orders,
    two_sided: true,
    venue: id,
    tokens,
    host: `localhost:${port}`,
    expiry_slot: slot + 100_000,
  })
  await generator.ask('run', { target: facts, lanes: 64, count: Math.floor(orders / 8), per_second: rate })
  // An idle process at the same time shows the machine's share of a pause.
  const machine = openLoopGauge()
  const before = await venue.ask<VenueUsage>('usage')
  const count = orders - Math.floor(orders / 8)
  const done = await generator.ask<LoadReport>('run', { target: facts, lanes: 64, count, per_second: rate })
  const after = await venue.ask<VenueUsage>('usage')
  const pauses = after.pauses!
  const machine_ms = machine.takeWorst().worst_ms
  const beside = `at ${Math.round(done.per_second)}/s`
  const refused = count - (done.statuses['202'] ?? 0)
  figures.push(
    { figure: 'event-loop pause, worst', value: pauses.worst_ms, unit: 'ms', beside },
    {
      figure: 'the same, waits for a core taken off',
      value: pauses.own_worst_ms,
      unit: 'ms',
      beside,
      target: '< 20',
    },
    { figure: 'pause of an idle process, worst', value: machine_ms, unit: 'ms', beside: 'same seconds' },
    { figure: 'acknowledged, p99', value: done.p99_ms, unit: 'ms', beside },
    { figure: 'acknowledged, worst', value: done.max_ms, unit: 'ms', beside },
    { figure: 'orders refused', value: refused, unit: '1', beside: done.failure?.slice(0, 60) ?? '' },
    { figure: 'settlement batches hashed', value: after.batches_hashed - before.batches_hashed, unit: '1' },
    { figure: 'Ed25519 verify, one core', value: verifyLimit().per_second, unit: '1/s' },
    { figure: 'fdatasync', value: await syncLimit(), unit: '1/s' },
  )
  return figures
})
