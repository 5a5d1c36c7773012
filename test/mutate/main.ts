/** `bun run mutate --area NAME`: plants faults in the sources of areas and lists those that their tests do not notice. */
import { join } from 'node:path'
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { AREAS } from './areas'
import { Campaign, describe, tableOf } from './campaign'

const USAGE = `usage: bun run mutate --area NAMES [--count N] [--seed S] [--workers W] [--resume FILE] [--survivors]
Plants N faults in the sources of each area, one at a time in a copy of the tree, and runs the tests of the area on each: the
quick ones that execute the line, then the type checker, then the others. Lists the faults that nothing noticed.
  --area       one or several, with commas between them, or 'all'
  --count      default 30
  --seed       of an earlier run, to draw its faults again
  --workers    copies that run at the same time; default 1
  --resume     writes each result to this file, and goes on where the file ends
  --survivors  tries those of the file again
areas: ${Object.keys(AREAS).join(', ')}`

await runCommand(USAGE, async (args) => {
  const options = new Options(args, {
    texts: ['area', 'count', 'seed', 'workers', 'resume'],
    flags: ['survivors'],
  })
  const asked = options.text('area')
  const names = asked === 'all' ? Object.keys(AREAS) : asked.split(',')
  const unknown = names.find((name) => !Object.hasOwn(AREAS, name))
  if (unknown !== undefined) throw new UsageFault(`there is no area '${unknown}'`)
  const areas = Object.fromEntries(names.map((name) => [name, AREAS[name]!]))
  const workers = options.count('workers', 1)
  if (workers < 1) throw new UsageFault('--workers is at least 1')
  const seed = options.count('seed', Date.now() % 1_000_000_000)
  const root = join(import.meta.dir, '../..')
  const campaign = new Campaign(root, areas, options.count('count', 30), seed, options.optional('resume'))
  if (options.flag('survivors')) campaign.forgetSurvivors()
  const { sites, results, earlier } = campaign
  console.log(
    `seed ${seed}, ${sites.length} faults, ${results.size} of them tried before, ${earlier} on another tree`,
  )
  process.once('SIGINT', () => void campaign.close().finally(() => process.exit(1)))
  try {
    await campaign.run(workers, (result) => console.log(describe(campaign.sites[result.at]!, result)))
    const { lines, survived } = tableOf(campaign)
    for (const line of lines) console.log(line)
    return survived.length === 0
  } finally {
    await campaign.close()
  }
})
