/**
 * Compares the time to acknowledge an order through the replicated log and through the local journal: `bun bench/ack_cluster.ts
 * [--orders N] [--lanes N]`. Two venue processes take the same load, one after the other: a closed loop, then an open loop at
 * half of the rate that the log reached. The three members of etcd run on this machine and share its disk and its cores.
 */

import { join } from 'node:path'
import { EtcdCluster } from '../sandbox/cluster/etcd_cluster'
import { runBench, startChild } from './kit/child_process'
import { type Figure, numbers } from './kit/figures'
import type { LoadReport } from './load/load_process'
import type { VenueFacts } from './venue/venue_process'

const { orders, lanes } = numbers({ orders: 12_000, lanes: 64 })
/** Of the orders: to warm up, and then in a closed loop. */
const CLOSED_SHARE = 0.25
const KINDS = ['replicated log', 'local journal'] as const

const venues = KINDS.map(() => startChild('venue/venue_process.ts'))
const generator = startChild('load/load_process.ts')

/** A closed loop, then an open one at `per_second`, by default half of the rate that the closed one reached. */
async function loaded(
  facts: VenueFacts,
  per_second?: number,
): Promise<{ closed: LoadReport; open: LoadReport }> {
  const { venue, tokens, port, slot } = facts
  const load = { notes: orders, from: 0, count: orders, two_sided: false, venue, tokens }
  await generator.ask('signPlaces', { ...load, host: `localhost:${port}`, expiry_slot: slot + 100_000 })
  const run = async (count: number, rate?: number) => {
    const paced = rate === undefined ? {} : { per_second: rate }
    const done = await generator.ask<LoadReport>('run', { target: facts, lanes, count, ...paced })
    if (done.failure !== undefined) throw new Error(`an order was refused: ${done.failure}`)
    return done
  }
  const count = Math.floor(orders * CLOSED_SHARE)
  await run(count)
  const closed = await run(count)
  return { closed, open: await run(orders - 2 * count, per_second ?? closed.per_second / 2) }
}

await runBench('ack_cluster', [...venues, generator], async (dir) => {
  const etcd = await EtcdCluster.start()
  try {
    const figures: Figure[] = []
    let per_second: number | undefined
    for (const [at, kind] of KINDS.entries()) {
      const cluster =
        kind === 'local journal' ? {} : { cluster: { endpoints: etcd.endpoints, tls: etcd.tls } }
      const facts = await venues[at]!.ask<VenueFacts>('start', {
        dir: join(dir, `${at}`),
        notes: orders,
        ...cluster,
      })
      const { closed, open } = await loaded(facts, per_second)
      per_second ??= closed.per_second / 2
      const beside = `at ${Math.round(open.per_second)}/s, open loop`
      figures.push(
        { figure: `${kind}: orders acknowledged, closed loop`, value: closed.per_second, unit: '/s' },
        { figure: `${kind}: acknowledged, p50`, value: open.p50_ms, unit: 'ms', beside },
        { figure: `${kind}: acknowledged, p99`, value: open.p99_ms, unit: 'ms', beside },
      )
    }
    return figures
  } finally {
    await etcd.stop()
  }
})
