/**
 * Measures memory, boot and disk after many settled orders with one live set: `bun bench/settled.ts [--orders N]
 * [--fewer N]`. The orders pass the state's own execution, snapshots, stores and trees; journal, history and Poseidon of notes
 * are left out. The same is measured after fewer orders.
 */
import { runBench, startChild } from './kit/child_process'
import { type Figure, median, numbers } from './kit/figures'
import type { Booted, Settled } from './venue/settled_process'

const { orders, fewer: few } = numbers({ orders: 1_000_000, fewer: 100_000 })
const MB = 1024 * 1024
/** The medians of this many count, of both folders by turns: others on the machine cost both the same. */
const BOOTS = 9

async function ask<T>(name: string, argument: unknown): Promise<T> {
  const child = startChild('venue/settled_process.ts')
  const answer = await child.ask<T>(name, argument)
  await child.end()
  return answer
}

function joined(settled: Settled, boots: readonly Booted[]): Booted & Settled {
  const middle = (value: (one: Booted) => number) => median(boots.map(value))
  const medians = { ms: middle(({ ms }) => ms), cpu_ms: middle(({ cpu_ms }) => cpu_ms) }
  return { ...settled, ...boots[0]!, ...medians, rss_bytes: middle(({ rss_bytes }) => rss_bytes) }
}

await runBench('settled', [], async (dir) => {
  const folders = [`${dir}/fewer`, `${dir}/all`] as const
  const settled_fewer = await ask<Settled>('settle', { dir: folders[0], orders: few })
  const settled_all = await ask<Settled>('settle', { dir: folders[1], orders })
  const boots: [Booted[], Booted[]] = [[], []]
  for (let boot = 0; boot < 2 * BOOTS; boot++)
    boots[boot % 2]!.push(await ask<Booted>('boot', { dir: folders[boot % 2] }))
  const fewer = joined(settled_fewer, boots[0])
  const all = joined(settled_all, boots[1])
  const figuresOf = (count: number, one: Booted & Settled): Figure[] => [
    {
      figure: `resident after ${count} settled orders, caches filled`,
      value: one.rss_bytes / MB,
      unit: 'MB',
      beside: `${one.live_notes} live notes, ${one.queued_rows} rows not in the stores`,
    },
    {
      figure: `load of snapshot, stores and trees after ${count}`,
      value: one.cpu_ms,
      unit: 'ms of a processor',
      beside: `${Math.round(one.ms)} ms of time`,
    },
    {
      figure: `disk per settled order after ${count}`,
      value: one.disk_bytes / one.leaves,
      unit: 'bytes',
      beside: `at most ${Math.ceil(one.disk_most)} between two snapshots`,
    },
  ]
  const ratio = { figure: 'resident, against fewer orders', value: all.rss_bytes / fewer.rss_bytes }
  return [
    ...figuresOf(few, fewer),
    ...figuresOf(orders, all),
    { ...ratio, unit: 'times', target: '< 1.2' },
    {
      figure: 'load, against fewer orders',
      value: all.cpu_ms / fewer.cpu_ms,
      unit: 'times',
      target: '< 1.2',
    },
  ]
})
