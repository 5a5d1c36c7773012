/**
 * Runs benchmarks one after the other: `bun run bench [NAME…] [--flag value…]`, all of them without a name. Flags go to every
 * bench named. Each prints the machine, a table of figures with the machine's own limits, and one JSON line per figure, and
 * exits with 1 when a target is missed.
 */
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { runCommand, UsageFault } from '../client/cli/command'

/** A bench is a file of this folder that begins by saying how it is run. */
const names = readdirSync(import.meta.dir)
  .filter((file) => file.endsWith('.ts') && file !== basename(import.meta.path))
  .map((file) => basename(file, '.ts'))
const benches: string[] = []
for (const name of names) {
  const text = await Bun.file(join(import.meta.dir, `${name}.ts`)).text()
  if (text.includes(`\`bun bench/${name}.ts`)) benches.push(name)
}

const USAGE = `usage: bun run bench [NAME ...] [--flag value ...]
Flags go to every bench named; without a name every bench runs. Benches: ${benches.sort().join(', ')}`

await runCommand(USAGE, async (given) => {
  const flags_from = given.findIndex((word) => word.startsWith('--'))
  const wanted = flags_from < 0 ? given : given.slice(0, flags_from)
  const flags = flags_from < 0 ? [] : given.slice(flags_from)
  if (wanted.length === 0 && flags.length > 0) throw new UsageFault('flags need the name of a bench')
  const unknown = wanted.filter((name) => !benches.includes(name))
  if (unknown.length > 0) throw new UsageFault(`no such bench: ${unknown.join(', ')}`)
  let failed = false
  for (const name of wanted.length > 0 ? wanted : benches.sort()) {
    console.log(`\n== ${name}`)
    const child = Bun.spawn([process.execPath, join(import.meta.dir, `${name}.ts`), ...flags], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    failed = (await child.exited) !== 0 || failed
  }
  return !failed
})
