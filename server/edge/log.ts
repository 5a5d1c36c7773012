/** Writes JSON lines from an allow list of fields, so that an order, a token or a URL cannot be logged by mistake. */

type LogLevel = 'info' | 'warn' | 'error'
/** Fields of a line, in their order. `route` is the template (`GET /orders/{order_id}`), never the URL. */
const FIELDS = [
  ...(['request_id', 'route', 'code', 'field', 'error', 'stack', 'reason', 'signal', 'mode'] as const),
  ...(['port', 'operator_port', 'sockets', 'version', 'venue', 'compose_hash', 'fee_payer'] as const),
  ...(['epoch', 'slot', 'seq', 'not_after_ms', 'account_url'] as const),
] as const
type NumberField = 'port' | 'operator_port' | 'sockets' | 'epoch' | 'slot' | 'seq' | 'not_after_ms'
type LogFields = { [F in (typeof FIELDS)[number]]?: F extends NumberField ? number : string } & {
  url?: never
}
export interface Log {
  write(level: LogLevel, event: LogEvent, fields?: LogFields): void
}

/** `sink` receives whole lines. Fields outside the list are dropped even if a caller bypasses the types. */
export function openLog(sink: (line: string) => void, unixMs: () => number): Log {
  return {
    write(level, event, fields = {}) {
      const line: Record<string, unknown> = { unix_ms: unixMs(), level, event }
      for (const name of FIELDS) if (fields[name] !== undefined) line[name] = fields[name]
      sink(`${JSON.stringify(line)}\n`)
    },
  }
}

/** Lists every event that a log line can have, with its meaning; docs/operations.md repeats the list. */
export const LOG_EVENTS = {
  enclave_open: 'The guest agent gave the keys; has the fee payer, which needs SOL.',
  code_portable:
    'A compiled library is absent, damaged or for another machine: slower code takes its place; `reason` names its functions.',
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
  version_active: 'The operator put a version of rules and formats in force; `code` names it.',
  link_open: 'The leading node answers on a link: both have proved their machine and build.',
  link_lost: 'It does not, or one of both rejects the other; has the reason. Tried again twice a second.',
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
  fronting: 'Clients are served while another node leads.',
  draining: 'Sockets get their bye once the batches are done.',
  stopped: 'The drain is complete.',
  fatal:
    'The process exits at once; memory may be ahead of the disk. `reason` names the fault of journal, stores or etcd.',
} as const
type LogEvent = keyof typeof LOG_EVENTS
