/**
 * Measures the boot of an engine with many journaled commands: `bun bench/boot.ts [--commands N]`. Half are places, half
 * cancels; the process that wrote them is killed, as in a crash. The engine starts from its newest snapshot, taken while it
 * ran, and replays the rest; then again after a clean stop.
 */

import { runBench, startChild } from './kit/child_process'
import { numbers } from './kit/figures'
import { syncLimit, verifyLimit } from './kit/machine_limits'
import type { Opened } from './venue/engine_process'

const { commands } = numbers({ commands: 100_000 })
/** The target is stated for a million commands. */
const target = commands === 1_000_000 ? ({ target: '< 3' } as const) : {}

async function boot(dir: string): Promise<Opened & { drain_ms: number }> {
  const child = startChild('venue/engine_process.ts')
  const opened = await child.ask<Opened>('open', { dir })
  const drain_ms = await child.ask<number>('drain')
  await child.end()
  return { ...opened, drain_ms }
}

await runBench('boot', [], async (dir) => {
  const writer = startChild('venue/engine_process.ts')
  await writer.ask('open', { dir })
  await writer.ask('fund', { notes: 1_024 })
  await writer.ask('commands', { commands })
  await writer.end()
  const replayed = await boot(dir)
  const again = await boot(dir)
  const per_s = (replayed.replayed * 1_000) / replayed.ms
  return [
    {
      figure: 'boot after a crash',
      value: replayed.ms / 1_000,
      unit: 's',
      beside: `${replayed.replayed} records replayed`,
      ...target,
    },
    { figure: 'records replayed', value: per_s, unit: '1/s' },
    {
      figure: 'a million commands by replay alone',
      value: 1_000_000 / per_s,
      unit: 's',
      beside: 'the engine starts from its newest snapshot',
    },
    {
      figure: 'boot after a clean stop',
      value: again.ms / 1_000,
      unit: 's',
      beside: `${again.orders} orders`,
    },
    { figure: 'records after its snapshot', value: again.replayed, unit: '1', target: '< 100' },
    { figure: 'clean stop with a snapshot', value: replayed.drain_ms, unit: 'ms' },
    { figure: 'Ed25519 verify, one core', value: verifyLimit().per_second, unit: '1/s' },
    { figure: 'fdatasync', value: await syncLimit(), unit: '1/s' },
  ]
})
