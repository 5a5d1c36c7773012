/** Runs a campaign of simulated schedules and prints what was met: `bun run simulate --runs N --seed S`. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { awaits } from './awaits'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
  },
})
const folder = mkdtempSync(join(tmpdir(), 'tacit-simulation-'))
process.env['TMPDIR'] = folder
const real_ms = performance.now.bind(performance)
const { Campaign } = await import('./campaign')
const began_ms = real_ms()
const campaign = new Campaign(folder, values.trace)
const RUNS = Number(values.runs)
const OF_ONE_GROUP = 25
let broken: string[] = []
for (let done = 0; done < RUNS && broken.length === 0; done += OF_ONE_GROUP) {
  broken = await campaign.group(Number(values.seed) + done, Math.min(OF_ONE_GROUP, RUNS - done))
  const { user, system } = process.cpuUsage()
  console.log(JSON.stringify({ ...campaign.figures, s: Math.round((real_ms() - began_ms) / 1000), processor_s: Math.round((user + system) / 1e6) }))
}
for (const [name, count] of [...campaign.tally].toSorted()) console.log(`${count}\t${name}`)
const visited = awaits.filter(({ visits }) => visits > 0)
console.log(`${awaits.length} awaits, ${visited.length} visited, ${awaits.filter(({ stops }) => stops >= 100).length} stopped at 100 times`)
console.log(broken.join('\n'))
rmSync(folder, { recursive: true, force: true })
process.exitCode = broken.length > 0 ? 1 : 0
