/** Runs a campaign of simulated schedules and prints what was met: `bun run simulate --count N --seed S`. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { awaits } from './awaits'

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
  },
})
const folder = mkdtempSync(join(process.env["TMPDIR"] ?? tmpdir(), 'tacit-simulation-'))
process.env['TMPDIR'] = folder
const real_ms = performance.now.bind(performance)
const { Campaign } = await import('./campaign')
const began_ms = real_ms()
const campaign = new Campaign(folder)
const broken = await campaign.play(Number(values.seed), Number(values.count), values.trace)
const { user, system } = process.cpuUsage()
for (const [name, count] of [...campaign.tally].toSorted()) console.log(`${count}\t${name}`)
console.log(`${awaits.length} awaits, ${awaits.filter(({ visits }) => visits > 0).length} visited, ${awaits.filter(({ crashes }) => crashes > 0).length} crashed`)
console.log(`${campaign.done} schedules, ${Math.round(real_ms() - began_ms)} ms, processor ${Math.round((user + system) / 1000)} ms, lives ${campaign.lives}`)
console.log(broken.join('\n'))
rmSync(folder, { recursive: true, force: true })
process.exitCode = broken.length > 0 ? 1 : 0
