/**
 * Latency of other clients while strangers attack the front of an open TLS-ALPN-01 challenge: `bun bench/front.ts [--seconds S]
 * [--strangers N] [--idle N] [--writes N] [--arrivals N]`. A probe is `GET /health` over its own connection, one at a time.
 * Each attack is compared with the quiet front right before it, and with the same attack on the listener without a challenge.
 * `writes` and `arrivals` bound the strangers' writes and connections per second: they share the machine's cores. Loopback only.
 */

import { connect } from 'node:tls'
import { runBench, startChild } from './kit/child_process'
import { type Figure, numbers, quantile } from './kit/figures'
import { ATTACKS, type AttackDone, type AttackPlan } from './load/strangers'
import type { VenueFacts, VenueUsage } from './venue/venue_process'

const { seconds, strangers, idle, writes, arrivals } = numbers({
  seconds: 3,
  strangers: 100,
  idle: 2_000,
  writes: 5_000,
  arrivals: 300,
})
const PROBE_MS = 10_000

const venue = startChild('venue/venue_process.ts')
const crowd = startChild('load/strangers.ts')

/** Milliseconds of one request over a new connection; a missing answer counts as the whole wait. */
function probe(port: number): Promise<number> {
  const began = performance.now()
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () =>
      socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'),
    )
    const end = (ms: number) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(ms)
    }
    const timer = setTimeout(() => end(PROBE_MS), PROBE_MS)
    socket.on('data', (part) => {
      if (part.toString('latin1').startsWith('HTTP/1.1 200')) end(performance.now() - began)
    })
    socket.on('error', () => end(PROBE_MS))
  })
}

type Series = { p50: number; p99: number; failed: number; cpu_percent: number }

async function series(port: number): Promise<Series> {
  const latencies: number[] = []
  const began = performance.now()
  const { cpu_ms } = await venue.ask<VenueUsage>('usage')
  do {
    latencies.push(await probe(port))
    await Bun.sleep(2)
  } while (performance.now() - began < seconds * 1_000)
  const { cpu_ms: cpu_after_ms } = await venue.ask<VenueUsage>('usage')
  return {
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    failed: latencies.filter((ms) => ms >= PROBE_MS).length,
    cpu_percent: (100 * (cpu_after_ms - cpu_ms)) / (performance.now() - began),
  }
}

type Attacked = { quiet: Series; attacked: Series; done: AttackDone; rss_mb: number }

async function under(attack: (typeof ATTACKS)[number], port: number): Promise<Attacked> {
  const quiet = await series(port)
  const plan: AttackPlan = {
    attack,
    port,
    strangers: attack === 'idle' ? idle : strangers,
    writes_per_second: writes,
    arrivals_per_second: attack === 'idle' ? idle : arrivals,
  }
  await crowd.ask('start', plan)
  await Bun.sleep(1_000)
  const attacked = await series(port)
  const { rss_bytes } = await venue.ask<VenueUsage>('usage')
  const done = await crowd.ask<AttackDone>('stop')
  await Bun.sleep(500)
  return { quiet, attacked, done, rss_mb: rss_bytes / 2 ** 20 }
}

await runBench('front', [venue, crowd], async (dir) => {
  const figures: Figure[] = []
  const { port } = await venue.ask<VenueFacts>('start', { dir, notes: 1 })
  await series(port)
  const direct = new Map<string, Attacked>()
  for (const attack of ATTACKS) direct.set(attack, await under(attack, port))
  await venue.ask('openChallenge')
  await series(port)
  for (const attack of ATTACKS) {
    const { quiet, attacked, done, rss_mb } = await under(attack, port)
    const control = direct.get(attack)!
    const without = `without challenge ${control.quiet.p50.toFixed(2)} quiet, ${control.attacked.p50.toFixed(2)} attacked`
    const times = attacked.p50 / quiet.p50
    const sent = `${done.connections} connections, ${done.writes} writes, ${(done.bytes / 1_000).toFixed(0)} KB`
    const busy = `venue ${attacked.cpu_percent.toFixed(0)} % of a core (quiet ${quiet.cpu_percent.toFixed(0)}), ${rss_mb.toFixed(0)} MB`
    figures.push(
      { figure: `${attack}, quiet p50`, value: quiet.p50, unit: 'ms', beside: without },
      { figure: `${attack}, quiet p99`, value: quiet.p99, unit: 'ms' },
      { figure: `${attack}, attacked p50`, value: attacked.p50, unit: 'ms', beside: sent },
      { figure: `${attack}, attacked p99`, value: attacked.p99, unit: 'ms', beside: busy },
      { figure: `${attack}, times quiet p50`, value: times, unit: 'x', target: '<= 2' },
      { figure: `${attack}, unanswered`, value: attacked.failed, unit: '', target: '<= 0' },
    )
  }
  return figures
})
