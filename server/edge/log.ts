/** Writes JSON lines from an allow list of fields, so that an order, a token or a URL cannot be logged by mistake. */

import type { LogEvent } from './log_events'

type LogLevel = 'info' | 'warn' | 'error'
type LogFields = {
  request_id?: string
  /** The route's template (`GET /orders/{order_id}`), never the URL. */
  route?: string
  code?: string
  field?: string
  error?: string
  stack?: string
  reason?: string
  signal?: string
  mode?: string
  url?: never
  account_url?: string
  port?: number
  operator_port?: number
  sockets?: number
  version?: string
  venue?: string
  compose_hash?: string
  fee_payer?: string
  epoch?: number
  slot?: number
  seq?: number
  duration_ms?: number
  not_after_ms?: number
}
export interface Log {
  write(level: LogLevel, event: LogEvent, fields?: LogFields): void
}

const ALLOWED: readonly (keyof LogFields)[] = [
  'request_id',
  'route',
  'code',
  'field',
  'error',
  'stack',
  'reason',
  'signal',
  'mode',
  'port',
  'operator_port',
  'sockets',
  'version',
  'venue',
  'compose_hash',
  'fee_payer',
  'epoch',
  'slot',
  'seq',
  'duration_ms',
  'not_after_ms',
  'account_url',
]

/** `sink` receives whole lines. Fields outside the list are dropped even if a caller bypasses the types. */
export function openLog(sink: (line: string) => void, unixMs: () => number): Log {
  return {
    write(level, event, fields = {}) {
      const line: Record<string, unknown> = { unix_ms: unixMs(), level, event }
      for (const name of ALLOWED) if (fields[name] !== undefined) line[name] = fields[name]
      sink(`${JSON.stringify(line)}\n`)
    },
  }
}
