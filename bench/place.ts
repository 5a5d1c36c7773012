/**
 * Measures the whole path of a place order: HTTPS, token, schema, signature, decision, durable journal, receipt. First in
 * a closed loop, then in an open loop at half of that rate. `bun bench/place.ts [--orders N] [--lanes N] [--load SHARE]`; real
 * signatures, the load from its own process, a quarter of the orders to warm up. Orders rest and do not match. All threads of the
 * venue run on one core and the generator on another, so that neither waits for the other; `--shared 1` leaves both to the
 * system. 64 lanes leave a tenth of the venue's core idle. With `--beside DIR` the venue of another working tree takes the same
 * loads, by turns. With `--neighbours N` another account does what its limits allow, and twice that, beside N of the open loops,
 * by turns with quiet ones.
 */

import { join, resolve } from 'node:path'
import { loadNativeEd25519 } from '../native/load_ed25519'
import { type Child, cores_apart, runBench, startChild } from './kit/child_process'
import { type Figure, median, numbers, quantile } from './kit/figures'
import { pacedSyncs, syncLimit, verifyLimit } from './kit/machine_limits'
import type { RawFacts } from './kit/raw_server'
import type { LoadReport } from './load/load_process'
import type { ThreadTimes } from './venue/gauges'
import type { VenueFacts, VenueUsage } from './venue/venue_process'

const { orders, lanes, load, neighbours, shared, beside } = numbers(
  { orders: 160_000, lanes: 128, load: 0.5, neighbours: 0, shared: 0 },
  'beside',
)
const apart = cores_apart && shared === 0
const CORES = apart ? 'venue on one core, generator on another' : 'venue and generator share the cores'

/** The processes of a version: bodies and answers differ between versions, the bench's questions do not. */
type Side = { venue: Child; generator: Child }

/** `bench` is a folder, relative to this one. */
const sideIn = (bench: string): Side => ({
  venue: startChild(join(bench, 'venue/venue_process.ts'), apart ? 0 : undefined),
  generator: startChild(join(bench, 'load/load_process.ts'), apart ? 1 : undefined),
})
const own = sideIn('')
const compared = beside === undefined ? undefined : sideIn(resolve(beside, 'bench'))
const raw = startChild('kit/raw_server.ts', apart ? 0 : undefined)
const other = startChild('load/load_process.ts', apart ? 1 : undefined)

const PLACES: Record<keyof ThreadTimes, string> = {
  main_ms: 'on the main thread',
  workers_ms: 'on journal and history threads',
  compiling_ms: 'compiling',
  collecting_ms: 'collecting garbage beside',
}

type Phase = {
  report: LoadReport
  cpu_ms: number
  threads: ThreadTimes | undefined
  elapsed_ms: number
  usage: VenueUsage
}

/** Sends `count` prepared orders and measures the resources that the venue's process used. */
async function phase(
  facts: VenueFacts,
  count: number,
  per_second?: number,
  { venue, generator }: Side = own,
): Promise<Phase> {
  const before = await venue.ask<VenueUsage>('usage')
  const run = { target: facts, lanes, count, ...(per_second === undefined ? {} : { per_second }) }
  const began = performance.now()
  const done = await generator.ask<LoadReport>('run', run)
  const elapsed_ms = performance.now() - began
  const usage = await venue.ask<VenueUsage>('usage')
  if (done.failure !== undefined) throw new Error(`an order was refused: ${done.failure}`)
  return {
    report: done,
    cpu_ms: usage.cpu_ms - before.cpu_ms,
    threads: timesBetween(before.threads, usage.threads),
    elapsed_ms,
    usage: {
      ...usage,
      commands: usage.commands - before.commands,
      groups: usage.groups - before.groups,
    },
  }
}

function timesBetween(before?: ThreadTimes, after?: ThreadTimes): ThreadTimes | undefined {
  if (before === undefined || after === undefined) return undefined
  return {
    main_ms: after.main_ms - before.main_ms,
    workers_ms: after.workers_ms - before.workers_ms,
    compiling_ms: after.compiling_ms - before.compiling_ms,
    collecting_ms: after.collecting_ms - before.collecting_ms,
  }
}

async function rawPosts(facts: VenueFacts, count: number): Promise<LoadReport> {
  const target = await raw.ask<RawFacts>('start', { answer_bytes: 900 })
  await signPlaces(facts, 0, count)
  return await own.generator.ask<LoadReport>('run', { target, lanes, count })
}

async function signPlaces(
  { venue, tokens, slot, port }: VenueFacts,
  from: number,
  count: number,
  { generator }: Side = own,
) {
  await generator.ask('signPlaces', {
    notes: orders,
    from,
    count,
    two_sided: false,
    venue,
    tokens,
    host: `localhost:${port}`,
    expiry_slot: slot + 100_000,
  })
}

/** The disk's share of an order's latency: groups of the size at half load. */
async function diskFigures(): Promise<Figure[]> {
  const bytes = 2_048
  const times_ms = await pacedSyncs(bytes)
  const figure = (name: string, share: number): Figure => ({
    figure: `write of ${bytes} bytes with fdatasync, ${name}`,
    value: quantile(times_ms, share),
    unit: 'ms',
    beside: 'the disk alone, a millisecond apart',
  })
  return [figure('p50', 0.5), figure('p99', 0.99), figure('worst', 1)]
}

/** The times of the open loop at the lower rate. */
function latencyFigures({ report }: Phase): Figure[] {
  const at = `at ${Math.round(report.per_second)}/s, open loop`
  return [
    { figure: 'acknowledged, p50', value: report.p50_ms, unit: 'ms', beside: at },
    { figure: 'acknowledged, p99', value: report.p99_ms, unit: 'ms', beside: at, target: '< 5' },
    { figure: 'acknowledged, p99.9', value: report.p999_ms, unit: 'ms', beside: at },
    { figure: 'acknowledged, worst', value: report.max_ms, unit: 'ms', beside: at },
    { figure: 'the same since it was sent, p99', value: report.since_sent_p99_ms, unit: 'ms', beside: at },
    { figure: 'generator late, p99', value: report.lateness_p99_ms, unit: 'ms', beside: 'part of the above' },
  ]
}

/** Pairs of loads in a comparison of versions. */
const ROUNDS = 5
const NEIGHBOUR_EVENTS = 20_000
/** The neighbour's load: pages, at twice the rate that its bucket allows, or all its sockets, which resume from the start. */
const NOISES = {
  'pages of 500 events': { path: '/events?after=0&limit=500', per_second: 33 },
  'pages of 500 orders': { path: '/orders?limit=500&status=cancelled', per_second: 20 },
  '64 resuming sockets': { path: '/ws/orders?after=0', per_second: 0 },
} as const

type Noise = (typeof NOISES)[keyof typeof NOISES]

/** Starts the noise for at least `ms`; resolves once it has ended. */
async function noise(target: VenueFacts, token: string, { path, per_second }: Noise, ms: number) {
  if (per_second === 0) {
    await other.ask('openSockets', { target, path, tokens: [token], count: 64 })
    return { end: () => other.ask('closeSockets') }
  }
  const count = Math.ceil((per_second * ms) / 1_000)
  await other.ask('repeatGet', { path, host: `localhost:${target.port}`, token, count })
  const done = other.ask<LoadReport>('run', { target, lanes: 16, count, per_second })
  return { end: () => done }
}

/** Another account's places during each load, as a multiple of the quiet loop right before. */
async function neighbourFigures(
  facts: VenueFacts,
  token: string,
  left: number,
  per_second: number,
): Promise<Figure[]> {
  const count = Math.floor(left / (2 * neighbours * Object.keys(NOISES).length))
  const figures: Figure[] = []
  for (const [name, what] of Object.entries(NOISES)) {
    const quiet: LoadReport[] = []
    const noisy: LoadReport[] = []
    for (let round = 0; round < neighbours; round++) {
      quiet.push((await phase(facts, count, per_second)).report)
      const { end } = await noise(facts, token, what, (1_000 * count) / per_second)
      noisy.push((await phase(facts, count, per_second)).report)
      await end()
    }
    for (const [share, of, target] of [
      ['p50', (one: LoadReport) => one.p50_ms, '<= 1.5'],
      ['p99', (one: LoadReport) => one.p99_ms, '<= 2'],
    ] as const) {
      const [before, beside] = [median(quiet.map(of)), median(noisy.map(of))]
      const times = `${before.toFixed(2)} and ${beside.toFixed(2)} ms at ${Math.round(per_second)}/s`
      figures.push({
        figure: `place beside ${name}, ${share}`,
        value: beside / before,
        unit: 'x',
        beside: times,
        target,
      })
    }
  }
  return figures
}

/** Microseconds per order. */
const cpuOf = ({ cpu_ms, report }: Phase) => (cpu_ms * 1_000) / report.answered

/** Loads both versions in turn; the open loop runs at half of each version's own rate. */
async function comparedFigures(sides: readonly [VenueFacts, Side][]): Promise<Figure[]> {
  const warm = Math.floor(orders / 4)
  const count = Math.floor((orders - warm) / (2 * ROUNDS))
  const full = sides.map((): Phase[] => [])
  const half = sides.map((): Phase[] => [])
  for (const [facts, side] of sides) await phase(facts, warm, undefined, side)
  for (let round = 0; round < ROUNDS; round++)
    for (const at of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const [facts, side] = sides[at]!
      full[at]!.push(await phase(facts, count, undefined, side))
      half[at]!.push(await phase(facts, count, full[at]!.at(-1)!.report.per_second * load, side))
    }
  const rows: [
    string,
    string,
    Phase[][],
    (one: Phase) => number,
    Pick<Figure, 'target'>,
    Figure['target'],
  ][] = [
    ['orders accepted, durable', '1/s', full, (one) => one.report.per_second, {}, '>= 1.5'],
    ['processor time per order', 'us', full, cpuOf, { target: '<= 85' }, undefined],
    ['acknowledged at half of it, p50', 'ms', half, (one) => one.report.p50_ms, {}, undefined],
    ['acknowledged at half of it, p99', 'ms', half, (one) => one.report.p99_ms, { target: '< 5' }, undefined],
    ['of it the generator late, p99', 'ms', half, (one) => one.report.lateness_p99_ms, {}, undefined],
  ]
  return rows.flatMap(([figure, unit, phases, of, own_target, target]): Figure[] => {
    const [ours, theirs] = phases.map((rounds) => rounds.map(of)) as [number[], number[]]
    const times = median(ours.map((value, round) => value / theirs[round]!))
    return [
      {
        figure,
        value: median(ours),
        unit,
        beside: `${median(theirs).toPrecision(4)} in ${beside}`,
        ...own_target,
      },
      {
        figure: 'times the other, median of pairs',
        value: times,
        unit: 'x',
        beside: CORES,
        ...(target && { target }),
      },
    ]
  })
}

/** Of the closed loop. */
function fullFigures(full: Phase, verify: ReturnType<typeof verifyLimit>): Figure[] {
  const rate = full.report.per_second
  const perOrder = (ms: number) => (ms * 1_000) / full.report.answered
  const cpu_us = cpuOf(full)
  const share = { figure: 'share of the verify rate of one core', unit: '%', target: '>= 60' }
  return [
    { ...share, value: (100 * rate) / verify.per_second },
    {
      figure: 'processor time per order',
      value: cpu_us,
      unit: 'us',
      beside: `verify ${verify.cpu_us.toFixed(1)} us`,
      target: '<= 85',
    },
    ...Object.entries(full.threads ?? {}).map(([kind, ms]) => ({
      figure: `of it ${PLACES[kind as keyof ThreadTimes]}`,
      value: perOrder(ms),
      unit: 'us',
    })),
    { figure: 'cores the venue used', value: full.cpu_ms / full.elapsed_ms, unit: 'cores' },
    {
      figure: 'share of the verify rate of the cores it used',
      value: (100 * verify.cpu_us) / cpu_us,
      unit: '%',
      target: '>= 60',
    },
    { figure: 'commands per group commit', value: full.usage.commands / full.usage.groups, unit: '1' },
  ]
}

/** Verification as compiled code does it, where it loads. */
function compiledFigures(): Figure[] {
  const native = loadNativeEd25519()
  if (native === undefined) return []
  return [1, 4, 16].map((together) => {
    const { per_second, cpu_us } = verifyLimit(native, together)
    const figure = `the same, compiled, ${together} at a time`
    return { figure, value: per_second, unit: '1/s', beside: `${cpu_us.toFixed(1)} us` }
  })
}

const children = [...Object.values(own), ...Object.values(compared ?? {}), raw, other]
await runBench('place', children, async (dir) => {
  const figures: Figure[] = []
  const facts = await own.venue.ask<VenueFacts>('start', { dir, notes: orders })
  if (compared !== undefined) {
    const theirs = await compared.venue.ask<VenueFacts>('start', {
      dir: join(dir, 'compared'),
      notes: orders,
    })
    await signPlaces(facts, 0, orders)
    await signPlaces(theirs, 0, orders, compared)
    return await comparedFigures([
      [facts, own],
      [theirs, compared],
    ])
  }
  // Before the first load: a connection that idles for a minute is closed.
  const neighbour = { leaf: orders, events: NEIGHBOUR_EVENTS }
  const token = neighbours > 0 ? await own.venue.ask<string>('neighbour', neighbour) : ''
  const warm = Math.floor(orders / 4)
  const fast = Math.floor(orders / 4)
  const steady = Math.floor(orders / 10)
  const verify_before = verifyLimit()
  const bare = await rawPosts(facts, Math.min(orders, 20_000))
  await signPlaces(facts, 0, orders)
  await phase(facts, warm)
  const full = await phase(facts, fast)
  const verify_after = verifyLimit()
  const rate = full.report.per_second
  if (neighbours > 0) return await neighbourFigures(facts, token, orders - warm - fast, rate * load)
  // The runtime collects garbage between two loads; the change of load is not measured.
  await phase(facts, steady, rate * load)
  const half = await phase(facts, orders - warm - fast - steady, rate * load)
  const verify = {
    per_second: (verify_before.per_second + verify_after.per_second) / 2,
    cpu_us: (verify_before.cpu_us + verify_after.cpu_us) / 2,
  }
  const on_one_core = `verify ${Math.round(verify.per_second)}/s on one core`
  figures.push(
    { figure: 'orders accepted, durable', value: rate, unit: '1/s', beside: `${CORES}, ${on_one_core}` },
    { figure: 'raw Bun.serve, same requests', value: bare.per_second, unit: '1/s' },
    { figure: 'Ed25519 verify, one core', value: verify.per_second, unit: '1/s' },
    ...compiledFigures(),
    { figure: 'fdatasync', value: await syncLimit(), unit: '1/s' },
    ...fullFigures(full, verify),
  )
  figures.push(...latencyFigures(half), ...(await diskFigures()))
  return figures
})
