/** Counts commands, groups and refusals for the operator; no metric is per instrument, order or account. */

import { REFUSALS, type RefusalCode } from '../../protocol/refusals'
import type { Venue } from '../venue'

type Metric = ReturnType<Venue['metrics']>[number]

export class Metrics {
  private readonly refusals = new Map<RefusalCode, number>()
  private commands = 0
  private groups = 0
  private records = 0

  refused(code: RefusalCode): void {
    this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1)
  }
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
    // In the order of REFUSALS, so that two scrapes compare line by line.
    const refusals = REFUSALS.filter(({ code }) => this.refusals.has(code)).map(({ code }) => ({
      ...counter('tacit_refusals_total', 'Commands refused, by code.', this.refusals.get(code)!),
      labels: { code },
    }))
    const live = Object.entries(gauges).map(([name, { help, value }]) => ({
      name,
      help,
      type: 'gauge' as const,
      value,
    }))
    return [...counters, ...refusals, ...live]
  }
}

function counter(name: string, help: string, value: number): Metric {
  return { name, help, type: 'counter', value }
}
