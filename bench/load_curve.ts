/**
 * Draws latency against load: `bun bench/load_curve.ts [--orders N] [--lanes N]` writes `docs/figures/latency_by_load.svg`.
 * Loads are shares of the rate that a closed loop reached in the same run.
 */
import { runBench, startChild } from './kit/child_process'
import { type Figure, numbers, quantile } from './kit/figures'
import { pacedSyncs } from './kit/machine_limits'
import { draw } from './kit/plot'
import type { LoadReport } from './load/load_process'
import type { VenueFacts } from './venue/venue_process'

const { orders, lanes } = numbers({ orders: 36_000, lanes: 64 })
const SHARES = [0.1, 0.25, 0.5, 0.7, 0.85]
/** Of the orders: to warm up, and then in a closed loop. */
const CLOSED_SHARE = 0.3

const venue = startChild('venue/venue_process.ts')
const generator = startChild('load/load_process.ts')

/** The closed loop's rate, and a report at each share of it. */
async function byLoad(
  dir: string,
): Promise<{ per_second: number; loads: (LoadReport & { offered: number })[] }> {
  const facts = await venue.ask<VenueFacts>('start', { dir, notes: orders })
  const { tokens, port, slot } = facts
  const load = { notes: orders, from: 0, count: orders, two_sided: false, venue: facts.venue, tokens }
  await generator.ask('signPlaces', { ...load, host: `localhost:${port}`, expiry_slot: slot + 100_000 })
  const run = async (count: number, per_second?: number) => {
    const paced = per_second === undefined ? {} : { per_second }
    const done = await generator.ask<LoadReport>('run', { target: facts, lanes, count, ...paced })
    if (done.failure !== undefined) throw new Error(`an order was refused: ${done.failure}`)
    return done
  }
  const closed = Math.floor(orders * CLOSED_SHARE)
  await run(closed)
  const { per_second } = await run(closed)
  const each = Math.floor((orders - 2 * closed) / SHARES.length)
  const loads: (LoadReport & { offered: number })[] = []
  for (const share of SHARES) {
    const offered = per_second * share
    loads.push({ ...(await run(each, offered)), offered })
  }
  return { per_second, loads }
}

await runBench('load_curve', [venue, generator], async (dir) => {
  const { per_second, loads } = await byLoad(dir)
  const disk_p99_ms = quantile(await pacedSyncs(2_048), 0.99)
  draw('latency_by_load', {
    title: 'Time to the acknowledgement of a durable order, open loop',
    x: 'orders offered per second',
    y: 'milliseconds',
    curves: [
      { name: 'p50', points: loads.map((one) => [one.offered, one.p50_ms]) },
      { name: 'p99', points: loads.map((one) => [one.offered, one.p99_ms]) },
      { name: 'generator late, p99', points: loads.map((one) => [one.offered, one.lateness_p99_ms]) },
      { name: 'disk alone, p99', points: loads.map((one) => [one.offered, disk_p99_ms]) },
    ],
  })
  return [
    { figure: 'closed loop', value: per_second, unit: '1/s' },
    ...loads.flatMap((one): Figure[] => {
      const at = `at ${Math.round(one.offered)}/s`
      return [
        { figure: `acknowledged ${at}, p50`, value: one.p50_ms, unit: 'ms' },
        { figure: `acknowledged ${at}, p99`, value: one.p99_ms, unit: 'ms' },
      ]
    }),
  ]
})
