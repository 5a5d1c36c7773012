/** The part of the reference that OpenAPI cannot say: what travels on the sockets. */
import { opsOf } from './_declared'
import { EventKind } from './_event_shapes'
import type { MountedRoute } from './_mount'
import { fixSchema, type Json } from './_openapi_schema'
import { type Html, html, join, raw } from './_reference_html'
import { schemaTable } from './_reference_schema'

const SERVER_FRAMES: readonly (readonly [string, string])[] = [
  ['hello', 'First frame: stream, account_id, seq_first, seq_last, heartbeat_ms, slot, unix_ms.'],
  ['snapshot', 'Live orders, true at seq. Sent to a reader that does not resume, and after a gap.'],
  ['gap', 'Events seq_from to seq_to are no longer kept.'],
  ['event', 'One numbered event: seq, kind, slot, unix_ms, data. The same object as on GET /events.'],
  ['reply', 'The result of the command with this id.'],
  ['error', 'The refusal of the command with this id: code, message, applied and facts as on REST.'],
  ['heartbeat', 'Every 5 seconds on every socket: the last seq of the account, slot, unix_ms.'],
  ['warning', 'The token expires within 60 seconds; send auth.refresh.'],
  ['bye', 'The venue restarts: reason and retry_after_ms; then close 1012.'],
]
const CLOSES: readonly (readonly [string, string])[] = [
  ['1009', 'A frame beyond 16384 bytes.'],
  ['1012', 'Restart, after bye.'],
  ['4401', 'The token was revoked or expired, or the account is suspended.'],
  ['4408', 'The reader is too slow; resume with ?after=.'],
  ['4429', 'Too many frames.'],
]

export function streamsSection(manifest: readonly MountedRoute[]): Html {
  const kinds = EventKind.anyOf.map((kind) => String(kind.const))
  return html`<section id="frames"><h2>frames</h2>
<p>Commands are JSON objects <code>{op, id, params}</code>;
<code>id</code> is 1 to 64 characters and returns with the
answer. <code>auth.refresh</code> carries <code>token</code> instead of params.
A bad frame gets one error and the socket stays.</p>
${rows('From the venue, by type', SERVER_FRAMES)}
${rows('Close codes', CLOSES)}
<h3>Event kinds</h3><p>${join(kinds.map((kind) => html`<code>${kind}</code> `))}</p>
${join(manifest.map(operations))}
</section>`
}

function rows(title: string, entries: readonly (readonly [string, string])[]): Html {
  const body = entries.map(([name, text]) => html`<tr><td><code>${name}</code></td><td>${text}</td></tr>`)
  return html`<h3>${title}</h3><table><tbody>${join(body)}</tbody></table>`
}

function operations({ path, route }: MountedRoute): Html {
  if (route.kind !== 'stream') return raw('')
  const blocks = opsOf(route.contract).map(
    ({ op, schema, cost }) =>
      html`<tr><td><code>${op}</code></td><td>${String(cost)}</td><td>${
        schema === undefined ? raw('') : schemaTable(fixSchema(schema as unknown as Json))
      }</td></tr>`,
  )
  return html`<h3>Commands on <code>${path}</code></h3>
<table><thead><tr><th>op</th><th>cost</th><th>params</th></tr></thead><tbody>${join(blocks)}</tbody></table>`
}
