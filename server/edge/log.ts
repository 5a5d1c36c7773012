/** Writes JSON lines from an allow list of fields, so that an order, a token or a URL cannot be logged by mistake. */

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

/** Lists every event that a log line can have, with its meaning; docs/operations.md repeats the list. */
export const LOG_EVENTS = {
  enclave_open: 'The guest agent gave the keys; has the fee payer, which needs SOL.',
  vault_absent:
    'The vault does not exist yet or has announced no epoch authority: only the proof of that key is served.',
  machine_unjudged: 'No collateral to judge the own machine by yet; tried again every 5 s.',
  venue_open: 'The epoch is open.',
  listening: 'Both listeners accept connections.',
  not_trading: 'The start ended without trading; has the reasons.',
  status_changed: 'Readiness or its reasons changed; `code` is `ready` or `not_ready`.',
  account_record_applied: "An operator's record of an account was applied.",
  credential_applied: "A trader's first credential was applied.",
  instrument_changed: 'The operator opened, paused or closed an instrument.',
  batch_exported: 'A batch was exported to the auditor.',
  certificate_issued: 'The authority issued a certificate.',
  certificate_renewed: 'Every listener serves a new certificate.',
  certificate_not_renewed: 'A renewal failed; the old certificate is served until its end.',
  internal_error: 'An answer failed for a fault of the software; the caller got 500.',
  refusal_undeclared: 'A route gave a code that its reference does not name.',
  answer_undeclared: 'A route gave an answer that its reference does not describe.',
  disconnect_failed: 'The cancels of a closed socket could not be submitted.',
  unhandled_rejection: 'A fault of the software outside any answer; the process goes on.',
  ending: 'A drain began, by the named signal or the operator.',
  draining: 'Sockets get their bye once the batches are done.',
  stopped: 'The drain is complete.',
  fatal: 'The process exits at once; memory may be ahead of the disk.',
} as const
type LogEvent = keyof typeof LOG_EVENTS
