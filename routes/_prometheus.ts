/** Metrics as Prometheus text (exposition format 0.0.4). */
import type { Metric } from './_meters'

export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Rows of one name stand together under one HELP and TYPE line. */
export function prometheusText(metrics: readonly Metric[]): string {
  const groups = new Map<string, Metric[]>()
  for (const metric of metrics) groups.set(metric.name, [...(groups.get(metric.name) ?? []), metric])
  let text = ''
  for (const [name, rows] of groups) {
    const { help, type } = rows[0]!
    text += `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${type}\n`
    for (const { labels, value } of rows) text += `${name}${labelText(labels)} ${value}\n`
  }
  return text
}

function labelText(labels: Record<string, string> | undefined): string {
  if (labels === undefined || Object.keys(labels).length === 0) return ''
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`)
  return `{${pairs.join(',')}}`
}

function escapeLabel(value: string): string {
  return value.replace(/["\\\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`))
}
