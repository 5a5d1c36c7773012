/** Counts requests and sockets, measures the process, and writes both as Prometheus text. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { ClockPort } from '../../engine/ports'
import { REFUSALS, type RefusalCode } from '../../protocol/refusals'
import { DISK_STEP_BYTES, METRICS_AGE_MS, METRICS_STEP } from '../limits'

type Metric = {
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  labels?: Record<string, string>
  value: number
}
/** Counters of requests and sockets; none is per account, instrument or order. */
export interface Meters {
  answered(): void
  refused(code: RefusalCode): void
  socketOpened(): void
  socketClosed(code: number): void
  frameReceived(): void
  framesSent(count: number): void
  read(): Metric[]
}

/**
 * The refusals counted by code: of a connection, a login, a rate or a form of transport. Those of commands are left
 * out: a host that holds back all other messages could raise a count to its next step by its own commands, and read the outcome
 * of the next.
 */
const COUNTED_REFUSALS = REFUSALS.filter(({ code, status }) => {
  const limited = ['rate_limited', 'login_limited', 'login_busy', 'quote_busy', 'export_busy'].includes(code)
  return limited || code === 'route_unknown' || [401, 405, 413, 415, 426, 500].includes(status)
})

/** The close codes counted by code. Others share one row, so that clients cannot grow the table. */
const COUNTED_CLOSES = new Set([1000, 1001, 1006, 1009, 1011, 1012, 4401, 4408, 4429])

export function openMeters(): Meters {
  const refusals = new Map<RefusalCode, number>(COUNTED_REFUSALS.map(({ code }) => [code, 0]))
  const closes = new Map<string, number>()
  let answers = 0
  let sockets = 0
  let frames_in = 0
  let frames_out = 0
  return {
    answered() {
      answers += 1
    },
    refused(code) {
      const count = refusals.get(code)
      if (count === undefined) answers += 1
      else refusals.set(code, count + 1)
    },
    socketOpened() {
      sockets += 1
    },
    socketClosed(code) {
      sockets -= 1
      const name = COUNTED_CLOSES.has(code) ? String(code) : 'other'
      closes.set(name, (closes.get(name) ?? 0) + 1)
    },
    frameReceived() {
      frames_in += 1
    },
    framesSent(count) {
      frames_out += count
    },
    read: () => [
      counter(
        'tacit_http_answers_total',
        'Requests and commands answered, by success or by a refusal of the command.',
        answers,
      ),
      ...[...refusals].flatMap(([code, count]) =>
        count === 0
          ? []
          : [counter('tacit_http_refusals_total', 'Refusals of other kinds, by code.', count, { code })],
      ),
      { name: 'tacit_sockets', help: 'Open sockets.', type: 'gauge', value: sockets },
      counter('tacit_socket_frames_received_total', 'Frames received.', frames_in),
      counter('tacit_socket_frames_sent_total', 'Frames sent.', frames_out),
      ...[...closes].map(([code, value]) =>
        counter('tacit_socket_closes_total', 'Sockets closed by close code.', value, { code }),
      ),
    ],
  }
}

function counter(name: string, help: string, value: number, labels?: Record<string, string>): Metric {
  return { name, help, type: 'counter', value, ...(labels === undefined ? {} : { labels }) }
}

/** Values that no single message moves, or that the chain shows anyway. */
const EXACT: ReadonlySet<string> = new Set([
  ...['tacit_chain_slot', 'tacit_chain_lag_ms', 'tacit_snapshot_failures', 'tacit_accounts'],
  ...['tacit_ready', 'tacit_reason', 'tacit_exits_open', 'tacit_payouts_queued', 'tacit_lease_age_ms'],
  ...['tacit_files_damaged', 'tacit_unanchored_ms', 'tacit_exit_deadline_unix_s'],
  ...['tacit_providers', 'tacit_providers_agreeing', 'tacit_fee_payer_lamports'],
  ...['tacit_batches_packed', 'tacit_batches_hashed', 'tacit_batches_open'],
])

/**
 * Delays and rounds the counts from which the kind or the outcome of a single message would follow: each reading shows the
 * sample of an earlier one.
 */
export function openDelayed(clock: Pick<ClockPort, 'monotonicMs'>): (rows: readonly Metric[]) => Metric[] {
  let shown = new Map<string, number>()
  let sampled = new Map<string, number>()
  let sampled_ms = Number.NEGATIVE_INFINITY
  const nameOf = ({ labels, name }: Metric) => name + labelText(labels)
  return (rows) => {
    const now_ms = clock.monotonicMs()
    if (now_ms - sampled_ms >= METRICS_AGE_MS) {
      shown = sampled
      sampled = new Map(rows.map((row) => [nameOf(row), row.value - (row.value % METRICS_STEP)]))
      sampled_ms = now_ms
    }
    return rows.flatMap((row) => {
      if (EXACT.has(row.name)) return [row]
      // Delayed, it would be 0 after each start; in these steps no single message moves it.
      if (row.name === 'tacit_disk_free_bytes')
        return [{ ...row, value: row.value - (row.value % DISK_STEP_BYTES) }]
      const value = shown.get(nameOf(row)) ?? 0
      // A label that appears would show the first message of its kind.
      return value === 0 && row.labels !== undefined ? [] : [{ ...row, value }]
    })
  }
}

const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()

/**
 * Expiries of the listeners' certificates and of the collateral that a start falls back on, both given in Unix milliseconds.
 */
export function expiryMetrics(ends: { certificate_ms: number; collateral_ms: number }): Metric[] {
  const gauge = (name: string, help: string, unix_ms: number): Metric => {
    return { name, help, type: 'gauge', value: Math.floor(unix_ms / 1000) }
  }
  return [
    gauge(
      'tacit_certificate_expiry_seconds',
      'Unix time at which the served certificate ends.',
      ends.certificate_ms,
    ),
    gauge(
      'tacit_collateral_expiry_seconds',
      'Unix time at which the kept collateral ends.',
      ends.collateral_ms,
    ),
  ]
}

/** Memory, processor time and uptime; the longest delay of the event loop is reset by each call. */
export function processMetrics(): Metric[] {
  const { user, system } = process.cpuUsage()
  const gauge = (name: string, help: string, value: number): Metric => ({ name, help, type: 'gauge', value })
  const longest_s = delay.max > 0 ? delay.max / 1e9 : 0
  delay.reset()
  return [
    {
      name: 'process_cpu_seconds_total',
      help: 'Processor time of the process.',
      type: 'counter',
      value: (user + system) / 1e6,
    },
    gauge('process_resident_memory_bytes', 'Resident memory.', process.memoryUsage.rss()),
    gauge('process_uptime_seconds', 'Time since the process began.', process.uptime()),
    gauge(
      'tacit_event_loop_delay_max_seconds',
      'Longest delay of the event loop since the last reading.',
      longest_s,
    ),
  ]
}

/** Content type of the exposition format 0.0.4. */
export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Groups the rows of one name under one HELP and one TYPE line. */
export function prometheusText(metrics: readonly Metric[]): string {
  const groups = new Map<string, Metric[]>()
  for (const metric of metrics) groups.set(metric.name, [...(groups.get(metric.name) ?? []), metric])
  let text = ''
  for (const [name, rows] of groups) {
    const { help, type } = rows[0]!
    text += `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${type}\n`
    const series = type === 'histogram' ? `${name}_bucket` : name
    for (const { labels, value } of rows)
      text += `${series}${labelText(labels)} ${value === Infinity ? '+Inf' : value}\n`
    const all = rows.find(({ labels }) => labels?.['le'] === '+Inf')
    if (all !== undefined) text += `${name}_count ${all.value}\n`
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
