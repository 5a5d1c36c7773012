/** Counts commands and groups for the operator; no metric is per instrument, order or account. */

import type { Venue } from '../venue'

type Metric = ReturnType<Venue['metrics']>[number]

export class Metrics {
  private commands = 0
  private groups = 0
  private records = 0

  command(records: number): void {
    this.commands++
    this.records += records
  }
  group(): void {
    this.groups++
  }

  /** `gauges` are current values that the caller has read. */
  read(gauges: Record<string, { help: string; value: number }>): Metric[] {
    const counters: Metric[] = [
      counter('tacit_commands_total', 'Commands made durable.', this.commands),
      counter('tacit_journal_records_total', 'Journal records made durable.', this.records),
      counter('tacit_journal_groups_total', 'Group commits.', this.groups),
    ]
    const live = Object.entries(gauges).map(([name, { help, value }]) => ({
      name,
      help,
      type: 'gauge' as const,
      value,
    }))
    return [...counters, ...live]
  }
}

function counter(name: string, help: string, value: number): Metric {
  return { name, help, type: 'counter', value }
}
