/**
 * Compares read endpoints with bare Bun.serve answering as many bytes: `bun bench/reads.ts [--requests N] [--lanes N]`.
 * Over TLS, with the load from a separate process; processor time per request is the steadiest figure on a shared machine.
 * Lists are read repeatedly, like by a polling client.
 */

import { runBench, startChild } from './kit/child_process'
import { type Figure, median, numbers } from './kit/figures'
import type { RawFacts } from './kit/raw_server'
import type { LoadReport } from './load/load_process'
import { hexOf, named, pairNamed, SYMBOL } from './venue/bench_config'
import type { VenueFacts, VenueUsage } from './venue/venue_process'

const { requests, lanes, rounds } = numbers({ requests: 6_000, lanes: 32, rounds: 3 })
/** Paths and whether they need a token. */
const PATHS: [path: string, bearer: boolean][] = [
  ['/health', false],
  ['/time', false],
  ['/system/status', false],
  [`/instruments/${SYMBOL}`, false],
  [`/nonces?trading_key=${pairNamed('key 0').text}`, true],
  [`/orders/${hexOf(named('first order 0', 16))}`, true],
  ['/orders?limit=20', true],
  ['/events?limit=20', true],
  ['/fills?limit=20', true],
  ['/settlement/status', true],
  ['/tree/root', false],
  ['/transparency', false],
]
const WARM_ROUNDS = 3
const venue = startChild('venue/venue_process.ts')
const generator = startChild('load/load_process.ts')
const raw = startChild('kit/raw_server.ts')
type Target = { port: number; certificate: string }
type Cost = { per_second: number; cpu_us: number; body_bytes: number }

async function measure(
  target: Target,
  request: { path: string; token: string | undefined },
  cpuMs: () => Promise<number>,
): Promise<Cost> {
  const host = `localhost:${target.port}`
  await generator.ask('repeatGet', { ...request, host, count: requests })
  const before = await cpuMs()
  const done = await generator.ask<LoadReport>('run', { target, lanes, count: requests })
  if (done.failure !== undefined) throw new Error(`${request.path} was refused: ${done.failure}`)
  const cpu_us = (((await cpuMs()) - before) * 1_000) / requests
  return { per_second: done.per_second, cpu_us, body_bytes: done.body_bytes }
}

const venueCpu = async () => (await venue.ask<VenueUsage>('usage')).cpu_ms
const rawCpu = () => raw.ask<number>('cpuMs')

await runBench('reads', [venue, generator, raw], async (dir) => {
  const figures: Figure[] = []
  const facts = await venue.ask<VenueFacts>('start', { dir, notes: 2_000 })
  const bare = await raw.ask<RawFacts>('start', { answer_bytes: 100 })
  for (const [path, bearer] of PATHS) {
    const request = { path, token: bearer ? facts.tokens[0] : undefined }
    // Warm-up: the JIT compiles the hot code first.
    let warm = await measure(facts, request, venueCpu)
    for (let round = 1; round < WARM_ROUNDS; round++) warm = await measure(facts, request, venueCpu)
    await raw.ask('answerBytes', warm.body_bytes)
    const own: Cost[] = []
    const floor: Cost[] = []
    for (let round = 0; round < rounds; round++) {
      floor.push(await measure(bare, request, rawCpu))
      own.push(await measure(facts, request, venueCpu))
    }
    const cpu = median(own.map((one) => one.cpu_us))
    const raw_cpu = median(floor.map((one) => one.cpu_us))
    const rate = median(own.map((one) => one.per_second))
    const raw_rate = median(floor.map((one) => one.per_second))
    const beside = `raw ${Math.round(raw_rate)}/s, ${raw_cpu.toFixed(1)} us`
    const name = path.split('?')[0]!.replace(/[0-9a-f]{32}/, '{order_id}')
    figures.push({ figure: `GET ${name}`, value: rate, unit: '1/s', beside })
    figures.push({ figure: `GET ${name}, processor time`, value: cpu, unit: 'us', beside })
    figures.push({ figure: `GET ${name}, times raw`, value: cpu / raw_cpu, unit: 'x', target: '<= 1.5' })
  }
  return figures
})
