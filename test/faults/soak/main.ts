/** `bun run soak`: the venue's real process under steady load for many minutes, with a chart of its memory and latency. */
import { writeFileSync } from 'node:fs'
import { plotSvg } from '../../../bench/kit/plot'
import { Options, runCommand, UsageFault } from '../../../client/cli/command'
import { Soak } from './soak'

const USAGE = `usage: bun run soak [--minutes N] [--per-second N] [--kill-every N] [--seed S] [--chart FILE]
Runs the venue process under steady load: places, modifies, cancels and merges, with an exit and a deposit in each minute.
Kills and restarts it in between, checks every account after each start, and at the end that every amount balances.
  --minutes     default 60
  --per-second  commands, default 20
  --kill-every  minutes between kills, default 5
  --chart       SVG of resident memory and latency, default soak.svg`

await runCommand(USAGE, async (args) => {
  const options = new Options(args, { texts: ['minutes', 'per-second', 'kill-every', 'seed', 'chart'] })
  const minutes = options.count('minutes', 60)
  const kill_every = options.count('kill-every', 5)
  if (kill_every === 0) throw new UsageFault('--kill-every is at least 1')
  const seed = options.count('seed', Date.now() % 1_000_000_000)
  console.log(`seed ${seed}`)
  const soak = await Soak.open(seed, options.count('per-second', 20))
  process.once('SIGINT', () => void soak.close().finally(() => process.exit(1)))
  try {
    let shown = 0
    for (let minute = 1; soak.minutes < minutes; minute++) {
      await soak.steady(60)
      for (; shown < soak.faults.length; shown++) console.log(`FAILED: ${soak.faults[shown]}`)
      const { resident_mb, p50_ms, at_once_p99_ms, deferrable_p99_ms, commands } = soak.samples.at(-1)!
      console.log(
        `${soak.minutes.toFixed(1)} min: ${commands} commands, places and merges p50 ${p50_ms.toFixed(1)} ms, ` +
          `p99 ${at_once_p99_ms.toFixed(1)} ms, cancels and modifies p99 ${deferrable_p99_ms.toFixed(1)} ms, ` +
          `${resident_mb.toFixed(0)} MiB resident, ${soak.exits} exits, ${soak.kills} kills, ${soak.faults.length} faults`,
      )
      if (minute % kill_every === 0 && soak.minutes < minutes) await soak.kill(minute)
    }
    for (const line of await soak.balance()) console.log(line)
    const curve = (name: string, of: (sample: Soak['samples'][number]) => number) => ({
      name,
      points: soak.samples.map((sample) => [sample.minute, Math.max(of(sample), 0.1)] as const),
    })
    const chart = plotSvg({
      title: `Soak of ${soak.minutes.toFixed(0)} minutes, ${soak.kills} kills, ${soak.exits} exits`,
      x: 'minutes',
      y: 'MiB, milliseconds',
      linear_x: true,
      curves: [
        curve('resident MiB', (one) => one.resident_mb),
        curve('places p50 ms', (one) => one.p50_ms),
        curve('places p99 ms', (one) => one.at_once_p99_ms),
        curve('cancels p99 ms', (one) => one.deferrable_p99_ms),
      ],
    })
    writeFileSync(options.optional('chart') ?? 'soak.svg', chart)
    for (const fault of soak.faults.slice(shown)) console.log(`FAILED: ${fault}`)
    return soak.faults.length === 0
  } finally {
    await soak.close()
  }
})
