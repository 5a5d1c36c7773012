/** Runs a campaign of simulated schedules and prints its figures: `bun run simulate --runs N --seed S`. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { type Await, awaits, venueAwaits } from './awaits'
import type { Campaign, Kind } from './campaign'
import { ENOUGH, endsOf, type Focus, Guide } from './guide'

const WORLDS = ['memory', 'chain', 'cluster', 'all']
const USAGE = `usage: bun run simulate [--runs N] [--seed S] [--world NAME] [--guided] [--until HH:MM] [--counts FILE] [--awaits] [--trace]
Runs the venue and its clients on one seeded scheduler with simulated time, disk and network.
  --runs    default 25
  --seed    of an earlier run, to repeat it
  --world   memory (default); chain, with the vault program; cluster, three nodes on it; all by turns, memory most
  --guided  plays the worlds and moments that give awaits the ends they lack, until each reached one has them
  --until   begins no group of runs after this time of the host
  --counts  goes on from the counts of earlier campaigns in this file, and writes its own there after each group of runs
  --awaits  prints the visits and ends of each await of the venue
  --trace   prints the events of each run
TACIT_PLANTED plants a bug (test/simulation/instrument.ts).`

// Processes end and power does not: memory keeps their files as a disk would, and syncs cost nothing.
const MEMORY = '/dev/shm'

type Kept = {
  figures: Campaign['figures']
  played: Guide<Kind>['kept']
  awaits: Pick<Await, 'name' | 'text' | 'visits' | 'stops' | 'crashes' | 'chosen'>[]
}
/** Counts of awaits whose file has changed since are not taken. */
function goOnFrom({ figures, played, awaits: counts }: Kept, campaign: Campaign, guide: Guide<Kind>): void {
  Object.assign(campaign.figures, figures)
  const known = new Map(awaits.map((one) => [`${one.text} ${one.name}`, one]))
  for (const { text, name, visits, stops, crashes, chosen } of counts)
    Object.assign(known.get(`${text} ${name}`) ?? {}, { visits, stops, crashes, chosen })
  guide.goOnFrom(played)
}

const areaOf = (name: string) => /^(engine|server)\/[^/]+(?=\/)|^[^/]+/.exec(name)![0]

await runCommand(USAGE, async (args) => {
  const options = new Options(args, {
    texts: ['runs', 'seed', 'world', 'until', 'counts'],
    flags: ['awaits', 'guided', 'trace'],
  })
  const runs_wanted = options.count('runs', 25)
  const seed = options.count('seed', Math.floor(Math.random() * 2 ** 30), 10)
  const [world, until] = [options.text('world', 'memory'), options.optional('until')]
  if (!WORLDS.includes(world)) throw new UsageFault(`--world is one of ${WORLDS.join(', ')}`)
  if (until !== undefined && !/^([01]\d|2[0-3]):[0-5]\d$/.test(until))
    throw new UsageFault('--until is a time of the day, as 18:30')
  /** Runs that begin on one prepared venue. */
  const is_guided = options.flag('guided')
  const of_one_group = is_guided
    ? { memory: 2, chain: 2, cluster: 1 }
    : { memory: world === 'all' ? 8 : 25, chain: 3, cluster: 2 }
  const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'tacit-simulation-'))
  process.env['TMPDIR'] = folder
  const { Campaign, KINDS } = await import('./campaign')
  const kinds = world === 'all' ? KINDS : KINDS.filter((one) => one === world)
  const realNow = Date.now
  const began_ms = realNow()
  const isLate = () => until !== undefined && new Date(realNow()).toTimeString() > until
  const campaign = new Campaign(folder, options.flag('trace'), is_guided)
  const guide = new Guide<Kind>(kinds)
  const own = venueAwaits()
  const counts = options.optional('counts')
  if (counts !== undefined && existsSync(counts))
    goOnFrom(JSON.parse(readFileSync(counts, 'utf8')) as Kept, campaign, guide)
  const isOver = () => isLate() || (is_guided && guide.isDone)
  const broken: string[] = []
  for (let [done, group] = [0, 0]; done < runs_wanted && broken.length === 0 && !isOver(); group++) {
    const unguided = { kind: kinds[group % kinds.length]!, focus: 'trade' as Focus }
    const { kind, focus } = is_guided ? guide.next() : unguided
    const runs = Math.min(of_one_group[kind], runs_wanted - done)
    broken.push(
      ...(await guide.played({ kind, focus }, () => campaign.group(kind, seed + done, runs, focus))),
    )
    done += runs
    if (counts !== undefined && broken.length === 0) {
      const kept = awaits.map(({ planned, phases, ...one }) => one)
      const { figures } = campaign
      writeFileSync(counts, JSON.stringify({ figures, played: guide.kept, awaits: kept } satisfies Kept))
    }
    const { user, system } = process.cpuUsage()
    const seconds = {
      s: Math.round((realNow() - began_ms) / 1_000),
      processor_s: Math.round((user + system) / 1e6),
    }
    const often = awaits.filter((one) => endsOf(one) >= ENOUGH).length
    const reached = awaits.filter(({ visits }) => visits > 0).length
    const met = is_guided ? { focus, reached, often } : {}
    console.log(JSON.stringify({ seed, world: kind, ...met, ...campaign.figures, ...seconds }))
  }
  for (const [name, count] of [...campaign.tally].toSorted()) console.log(`${count} ${name}`)
  if (options.flag('awaits'))
    for (const one of own.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
      console.log(`${one.visits} ${one.stops} ${one.crashes} ${one.name}`)
  const sum = (of: readonly Await[]) => {
    const often = of.filter((one) => endsOf(one) >= ENOUGH)
    return `${of.length} | ${of.filter(({ visits }) => visits > 0).length} | ${often.length}`
  }
  console.log(`area | awaits | reached | ended ${ENOUGH} times or more`)
  const areas = Map.groupBy(own, ({ name }) => areaOf(name))
  for (const [area, of] of [...areas].toSorted()) console.log(`${area} | ${sum(of)}`)
  console.log(`all | ${sum(own)}`)
  for (const line of broken) console.log(`BROKEN ${line}`)
  rmSync(folder, { recursive: true, force: true })
  return broken.length === 0
})
