/**
 * Runs a campaign of simulated schedules and prints what was met: `bun run simulate --runs N --seed S`. `--until HH:MM` begins no
 * group of runs after that time of the host; `--awaits` prints each `await` of the product with what ended there; `--trace`
 * prints what happened in each run. TACIT_PLANTED plants a bug (`instrument.ts`).
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { awaits, findAwaits } from './awaits'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '25' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 30)) },
    until: { type: 'string' },
    awaits: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
  },
})
const [RUNS, SEED] = [Number(values.runs), Number(values.seed)]
/** Runs that begin on one prepared venue. */
const OF_ONE_GROUP = 25

// Processes end and power does not: memory keeps what they wrote as a disk would, and syncs cost nothing.
const MEMORY = '/dev/shm'
const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'tacit-simulation-'))
process.env['TMPDIR'] = folder
const { Campaign, ENOUGH } = await import('./campaign')
const realNow = Date.now
const [began_ms, until] = [realNow(), values.until]
const isLate = () => until !== undefined && new Date(realNow()).toTimeString() > until
const campaign = new Campaign(folder, values.trace)
const broken: string[] = []
for (let done = 0; done < RUNS && broken.length === 0 && !isLate(); done += OF_ONE_GROUP) {
  broken.push(...(await campaign.group(SEED + done, Math.min(OF_ONE_GROUP, RUNS - done))))
  const { user, system } = process.cpuUsage()
  const seconds = {
    s: Math.round((realNow() - began_ms) / 1_000),
    processor_s: Math.round((user + system) / 1e6),
  }
  console.log(JSON.stringify({ seed: SEED, ...campaign.figures, ...seconds }))
}
for (const [name, count] of [...campaign.tally].toSorted()) console.log(`${count}\t${name}`)
findAwaits()
if (values.awaits)
  for (const one of awaits.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    console.log(`${one.stops}\t${one.crashes}\t${one.name}`)
for (const part of ['engine/chain', 'engine/cluster', 'engine', 'server', 'routes', 'enclave', 'client']) {
  const own = awaits.filter(({ name }) => /^engine\/(chain|cluster)|^[^/]+/.exec(name)![0] === part)
  const [reached, often] = [own.filter((one) => one.visits > 0), own.filter((one) => one.stops >= ENOUGH)]
  console.log(
    `${part}: ${own.length} awaits, ${reached.length} reached, at ${often.length} everything stopped ${ENOUGH} times or more`,
  )
}
for (const line of broken) console.log(`BROKEN ${line}`)
rmSync(folder, { recursive: true, force: true })
process.exitCode = broken.length > 0 ? 1 : 0
