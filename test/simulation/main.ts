/**
 * Runs a campaign of simulated schedules and prints what was met: `bun run simulate --runs N --seed S`. `--world chain` runs the
 * vault program, `cluster` three nodes on it, `all` each in turn, the cheap one most. `--until HH:MM` begins no group of runs
 * after that time of the host; `--awaits` prints for each `await` of the product its visits, the stops of everything there and
 * the ends of one process; `--trace` prints what happened in each run. TACIT_PLANTED plants a bug (`instrument.ts`).
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Await, awaits, findAwaits } from './awaits'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '25' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 30)) },
    world: { type: 'string', default: 'memory' },
    until: { type: 'string' },
    awaits: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
  },
})
const [RUNS, SEED] = [Number(values.runs), Number(values.seed)]
/** Runs that begin on one prepared venue. */
const OF_ONE_GROUP = { memory: values.world === 'all' ? 8 : 25, chain: 3, cluster: 2 }

// Processes end and power does not: memory keeps what they wrote as a disk would, and syncs cost nothing.
const MEMORY = '/dev/shm'
const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'tacit-simulation-'))
process.env['TMPDIR'] = folder
const { Campaign, ENOUGH, KINDS } = await import('./campaign')
const kinds = values.world === 'all' ? KINDS : KINDS.filter((one) => one === values.world)
if (kinds.length === 0) throw new Error(`--world is one of ${KINDS.join(', ')}, all`)
const realNow = Date.now
const [began_ms, until] = [realNow(), values.until]
const isLate = () => until !== undefined && new Date(realNow()).toTimeString() > until
const campaign = new Campaign(folder, values.trace)
const broken: string[] = []
for (let [done, group] = [0, 0]; done < RUNS && broken.length === 0 && !isLate(); group++) {
  const kind = kinds[group % kinds.length]!
  const runs = Math.min(OF_ONE_GROUP[kind], RUNS - done)
  broken.push(...(await campaign.group(kind, SEED + done, runs)))
  done += runs
  const { user, system } = process.cpuUsage()
  const seconds = {
    s: Math.round((realNow() - began_ms) / 1_000),
    processor_s: Math.round((user + system) / 1e6),
  }
  console.log(JSON.stringify({ seed: SEED, world: kind, ...campaign.figures, ...seconds }))
}
for (const [name, count] of [...campaign.tally].toSorted()) console.log(`${count}\t${name}`)
findAwaits()
if (values.awaits)
  for (const one of awaits.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    console.log(`${one.visits}\t${one.stops}\t${one.crashes}\t${one.name}`)
const areaOf = (name: string) => /^(engine|server)\/[^/]+(?=\/)|^[^/]+/.exec(name)![0]
const areas = Map.groupBy(awaits, ({ name }) => areaOf(name))
const sum = (of: readonly Await[]) => {
  const often = of.filter(({ stops, crashes }) => stops + crashes >= ENOUGH)
  return `${of.length} | ${of.filter(({ visits }) => visits > 0).length} | ${often.length}`
}
console.log(`area | awaits | reached | ended ${ENOUGH} times or more`)
for (const [area, own] of [...areas].toSorted()) console.log(`${area} | ${sum(own)}`)
console.log(`all | ${sum(awaits)}`)
for (const line of broken) console.log(`BROKEN ${line}`)
rmSync(folder, { recursive: true, force: true })
process.exitCode = broken.length > 0 ? 1 : 0
