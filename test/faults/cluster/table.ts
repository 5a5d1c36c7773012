/** Prints what a campaign met: each fault, and the times from it to the next acknowledged order. */
import type { Campaign } from './campaign'

/** Milliseconds at a share of the sorted list. */
function at(sorted: readonly number[], share: number): string {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]
  return value === undefined ? '' : value.toFixed(0)
}

export function tableOf({ met, takeovers }: Pick<Campaign, 'met' | 'takeovers'>): string {
  const head = ['fault', 'rounds', 'takeovers', 'p50 ms', 'p95 ms', 'worst ms', 'detected p50', 'opened p50']
  const row = (name: string, rounds: number, own: Campaign['takeovers']) => {
    const sorted = (value: (one: Campaign['takeovers'][number]) => number) =>
      own.map(value).sort((a, b) => a - b)
    const ms = sorted((one) => one.ms)
    return [
      name,
      `${rounds}`,
      `${own.length}`,
      at(ms, 0.5),
      at(ms, 0.95),
      at(ms, 1),
      at(
        sorted((one) => one.detected_ms),
        0.5,
      ),
      at(
        sorted((one) => one.opened_ms),
        0.5,
      ),
    ]
  }
  const names = [...met.keys()].sort()
  const rows = names.map((name) =>
    row(
      name,
      met.get(name)!,
      takeovers.filter(({ fault }) => fault === name),
    ),
  )
  rows.push(
    row(
      'all',
      [...met.values()].reduce((sum, one) => sum + one, 0),
      takeovers,
    ),
  )
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((one) => one[column]!.length)))
  return [head, ...rows]
    .map((one) =>
      one.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '),
    )
    .join('\n')
}
