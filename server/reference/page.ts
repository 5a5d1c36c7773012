/** Renders the reference, made from the contracts at startup, and the documents of `docs/`, as pages without script. */

import { existsSync, readFileSync } from 'node:fs'
import { join as joinPath } from 'node:path'
import { FRAME_BYTES_MAX, FRAME_ID_LENGTH_MAX } from '../../protocol/limits'
import { REFUSALS } from '../../protocol/refusals'
import { EventKind } from '../../protocol/wire/trading'
import type { MountedRoute } from '../edge/endpoint'
import type { Documents } from '../edge/services'
import { MANIFEST } from '../manifest'
import {
  asyncApiOf,
  fixSchema,
  type Json,
  type Media,
  type OpenApi,
  type Operation,
  openApiOf,
} from './openapi'
import { REMEDIES } from './remedies'

export async function openDocuments(version: string): Promise<Documents> {
  const document = await openApiOf(MANIFEST, version)
  return {
    json: JSON.stringify(document),
    html: referencePage(document, MANIFEST),
    css: REFERENCE_STYLE,
    streams: JSON.stringify(asyncApiOf(MANIFEST, version)),
    index: indexOf(document),
    files: DOCUMENT_FILES,
  }
}

function referencePage(document: OpenApi, manifest: readonly MountedRoute[]): string {
  const { title, version, description } = document.info
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} ${version}: reference</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/style.css">
</head>
<body>
<header>
<h1>${title} <small>${version}</small></h1>
${join(description.split('\n').map((line) => html`<p>${prose(line)}</p>`))}
<p><a href="/swagger/docs/quickstart">Documents</a>, <a href="/swagger/json">OpenAPI document</a>, <a href="/swagger/streams">AsyncAPI document of the sockets</a></p>
<nav>
${join(document.tags.map(({ name }) => html`<a href="#tag-${name}">${name}</a> `))}
<a href="#frames">frames</a> <a href="#refusals">refusals</a>
</nav>
</header>
<main>
${join(document.tags.map((tag) => section(document, tag)))}
${streamsSection(manifest)}
${refusalsSection()}
</main>
</body>
</html>
`
  return page.text
}

function section(document: OpenApi, { name, description }: OpenApi['tags'][number]): Html {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.tags.includes(name))
      .map(([method, operation]) => operationBlock(method, path, operation)),
  )
  return html`<section id="tag-${name}"><h2>${name}</h2><p>${description}</p>${join(operations)}</section>`
}

function operationBlock(method: string, path: string, operation: Operation): Html {
  const { operationId, summary, description, parameters, requestBody, responses, security } = operation
  return html`<article id="${operationId}">
<h3><code class="method">${method.toUpperCase()}</code> <code>${path}</code></h3>
<p><strong>${summary}.</strong> ${prose(description ?? '')}</p>
<p class="note">${tokenNote(security)}</p>
${parameters === undefined ? raw('') : parametersTable(parameters)}
${
  requestBody === undefined
    ? raw('')
    : html`<h4>Body</h4>${mediaBlock(requestBody.content['application/json']!)}`
}
<h4>Answers</h4>
<dl>${join(Object.entries(responses).map(([status, response]) => answerRow(status, response)))}</dl>
</article>
`
}

function tokenNote(security: unknown[]): string {
  if (security.length === 0) return 'No token.'
  return security.length > 1 ? 'Token optional.' : 'Bearer token required.'
}

function parametersTable(parameters: NonNullable<Operation['parameters']>): Html {
  const rows = parameters.map(
    ({ name, in: place, required, description, schema }) =>
      html`<tr><td><code>${name}</code></td><td>${place}</td><td>${required ? 'required' : 'optional'}</td><td>${
        description ?? (schema['description'] as string | undefined) ?? ''
      }</td></tr>`,
  )
  return html`<h4>Parameters</h4><table><tbody>${join(rows)}</tbody></table>`
}

function answerRow(status: string, response: Operation['responses'][string]): Html {
  const json = response.content?.['application/json']
  if (json !== undefined)
    return html`<dt>${status}</dt><dd>${prose(response.description)} ${fieldList(json.schema)}<details>
<summary>Fields${json.example === undefined ? '' : ' and example'}</summary>${mediaBlock(json)}</details></dd>`
  const codes = [...response.description.matchAll(/`([a-z_]+)`/g)].map(([, code]) => code!)
  if (codes.length === 0) return html`<dt>${status}</dt><dd>${prose(response.description)}</dd>`
  return html`<dt>${status}</dt><dd class="codes">${join(codes.map((code) => html`<a href="#${code}">${code}</a> `))}</dd>`
}

/** The fields, and an answer that a venue gave: long texts and lists are cut, secrets left out. */
function mediaBlock({ schema, example }: Media): Html {
  const shown =
    example === undefined
      ? raw('')
      : html`<p class="note">Example</p><pre>${JSON.stringify(example, null, 2)}</pre>`
  return html`${schemaTable(schema)}${shown}`
}

function refusalsSection(): Html {
  const rows = REFUSALS.map(
    ({ code, status, message }) =>
      html`<tr id="${code}"><td><a href="/swagger/docs/errors#${code}"><code>${code}</code></a></td><td>${String(status)}</td><td>${message}</td><td>${prose(REMEDIES[code][1])}</td></tr>`,
  )
  return html`<section id="refusals"><h2>refusals</h2>
<p>In the order the checks run; the first that fails answers. Codes are never renamed or reused.</p>
<table><thead><tr><th>code</th><th>status</th><th>meaning</th><th>what to do</th></tr></thead><tbody>${join(rows)}</tbody></table></section>`
}

export const SERVER_FRAMES: readonly (readonly [string, string])[] = [
  ['hello', 'First frame: stream, account_id, seq_first, seq_last, heartbeat_ms, slot, unix_ms.'],
  ['snapshot', 'Live orders, true at seq. Sent to a reader that does not resume, and after a gap.'],
  ['gap', 'Events seq_from to seq_to are no longer kept.'],
  ['event', 'One numbered event: seq, kind, slot, unix_ms, data. The same object as on GET /events.'],
  ['reply', 'The result of the command with this id.'],
  ['error', 'The refusal of the command with this id: code, message, applied and facts as on REST.'],
  ['heartbeat', 'Every 5 seconds on every socket: the last seq of the account, slot, unix_ms.'],
  ['status', 'Readiness changed: ready, reasons, and reopens_slot while new orders wait for a slot.'],
  [
    'warning',
    'token_expiring: the token ends within 60 seconds; send auth.refresh. leader_changed, on an armed socket every 5 seconds in place of all other pushed frames: another node leads than its client has judged; nothing but the disarming is taken.',
  ],
  ['bye', 'The venue restarts or lost its epoch: reason and retry_after_ms; then close 1012.'],
]
export const CLOSES: readonly (readonly [string, string])[] = [
  ['1009', `A frame beyond ${FRAME_BYTES_MAX} bytes.`],
  ['1012', 'Restart or loss of the epoch, after bye.'],
  ['4401', 'The token or its credential ended.'],
  ['4408', 'The reader is too slow; resume with ?after=.'],
  ['4429', 'Too many frames.'],
]

/** Frames, close codes, events and operations of the sockets, which OpenAPI cannot express. */
function streamsSection(manifest: readonly MountedRoute[]): Html {
  const kinds = EventKind.anyOf.map((kind) => String(kind.const))
  return html`<section id="frames"><h2>frames</h2>
<p>Commands are JSON objects <code>{op, id, params}</code>;
<code>id</code> is 1 to ${String(FRAME_ID_LENGTH_MAX)} characters and returns with the
answer. <code>auth.refresh</code> carries <code>token</code> instead of params.
A bad frame gets one error and the socket stays.</p>
${rows('From the venue, by type', SERVER_FRAMES)}
${rows('Close codes', CLOSES)}
<h3>Event kinds</h3><p>${join(kinds.map((kind) => html`<code>${kind}</code> `))}: <a href="/swagger/docs/streams#events">what each says, and its data</a>.</p>
${join(manifest.map(operations))}
</section>`
}

function rows(title: string, entries: readonly (readonly [string, string])[]): Html {
  const body = entries.map(([name, text]) => html`<tr><td><code>${name}</code></td><td>${text}</td></tr>`)
  return html`<h3>${title}</h3><table><tbody>${join(body)}</tbody></table>`
}

function operations({ path, route }: MountedRoute): Html {
  if (route.kind !== 'stream') return raw('')
  const blocks = Object.entries(route.contract.ops).map(
    ([op, { schema, cost }]) =>
      html`<tr><td><code>${op}</code></td><td>${String(cost)}</td><td>${
        schema === undefined ? raw('') : schemaTable(fixSchema(schema))
      }</td></tr>`,
  )
  return html`<h3>Commands on <code>${path}</code></h3>
<table><thead><tr><th>op</th><th>cost</th><th>params</th></tr></thead><tbody>${join(blocks)}</tbody></table>`
}

const DEPTH_MAX = 2

/** A table of the fields, nested ones below their parent down to DEPTH_MAX levels; `depth` is the number of levels above. */
function schemaTable(schema: Json, depth = 0): Html {
  const list = schema['type'] === 'array' ? (schema['items'] as Json | undefined) : undefined
  if (list !== undefined) return html`<p class="note">Array of:</p>${schemaTable(list, depth)}`
  const branches = schema['anyOf'] as Json[] | undefined
  if (branches !== undefined) {
    return join(branches.map((branch) => html`<p class="note">One of:</p>${schemaTable(branch, depth)}`))
  }
  const fields = schema['properties'] as Record<string, Json> | undefined
  if (fields === undefined) return html`<p><code>${typeOf(schema)}</code></p>`
  const required = (schema['required'] as string[] | undefined) ?? []
  const rows = Object.entries(fields).map(([name, field]) =>
    fieldRow(name, field, required.includes(name), depth),
  )
  return html`<table><tbody>${join(rows)}</tbody></table>`
}

/** Only the names of an answer's fields, optional ones marked. */
function fieldList(schema: Json): Html {
  if (schema['type'] === 'array') return html`array of ${fieldList(schema['items'] as Json)}`
  const branches = schema['anyOf'] as Json[] | undefined
  if (branches !== undefined) return join(branches.map((branch) => html`one of ${fieldList(branch)}<br>`))
  const fields = Object.keys((schema['properties'] as Json | undefined) ?? {})
  if (fields.length === 0) return html`<code>${typeOf(schema)}</code>`
  const required = (schema['required'] as string[] | undefined) ?? []
  return join(fields.map((name) => html`<code>${name}${required.includes(name) ? '' : '?'}</code> `))
}

function fieldRow(name: string, field: Json, required: boolean, depth: number): Html {
  const inner = field['type'] === 'array' ? (field['items'] as Json) : field
  const nested = inner['properties'] !== undefined || inner['anyOf'] !== undefined
  return html`<tr><td><code>${name}</code></td><td>${typeOf(field)}${required ? '' : ', optional'}</td><td>${
    (field['description'] as string | undefined) ?? ''
  }${nested && depth < DEPTH_MAX ? schemaTable(inner, depth + 1) : raw('')}</td></tr>`
}

function typeOf(schema: Json): string {
  const words = schema['enum'] as unknown[] | undefined
  if (words !== undefined) return words.map((word) => JSON.stringify(word)).join(' | ')
  if (schema['anyOf'] !== undefined) return 'one of several shapes'
  const type = String(schema['type'] ?? 'any')
  const named = type === 'array' ? `array of ${typeOf(schema['items'] as Json)}` : type
  return schema['nullable'] === true ? `${named} or null` : named
}

/** Markup. The `html` tag escapes every inserted string, so no value of a schema becomes markup. */
type Html = { readonly text: string }

const ESCAPES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function html(parts: TemplateStringsArray, ...values: (string | Html)[]): Html {
  let text = parts[0]!
  values.forEach((value, index) => {
    text += typeof value === 'string' ? escaped(value) : value.text
    text += parts[index + 1]!
  })
  return { text }
}

/** Trusts `text`: only for markup written in this file. */
function raw(text: string): Html {
  return { text }
}

function join(parts: readonly Html[]): Html {
  return { text: parts.map(({ text }) => text).join('') }
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]!)
}

/** A sentence of the document; text in backticks becomes code. */
function prose(text: string): Html {
  return raw(escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>'))
}

/** One column, system fonts, both color schemes; loads nothing. */
const REFERENCE_STYLE = `:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { max-width: 72rem; margin: 0 auto; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
code, .codes { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
h1 small { font-weight: normal; font-size: 1rem; }
h2 { border-bottom: 1px solid var(--line); text-transform: capitalize; margin-top: 3rem; }
article { border: 1px solid var(--line); border-radius: 6px; padding: 0 1rem 1rem; margin: 1rem 0; }
article h3 { margin: .8rem 0 .2rem; }
.method { background: var(--soft); padding: .1rem .4rem; border-radius: 4px; }
.note { color: color-mix(in srgb, CanvasText 70%, Canvas); margin: .2rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { border: 1px solid var(--line); padding: .25rem .5rem; text-align: left; vertical-align: top; }
td table { margin-top: .4rem; }
td:first-child code { overflow-wrap: normal; font-weight: 600; }
dt { font-weight: bold; }
dd { margin: 0 0 .5rem 1rem; }
nav a { margin-right: .8rem; }
.document h2, .document h3 { text-transform: none; }
.document main { max-width: 48rem; }
pre { overflow-x: auto; max-height: 24rem; background: var(--soft); padding: .5rem; }
summary { cursor: pointer; }
@media (max-width: 40rem) {
  article { padding: 0 .5rem 1rem; }
  table, tbody, tr, td { display: block; border-width: 0; padding: 0 0 .1rem; }
  tr { border-top: 1px solid var(--line); padding: .3rem 0; }
  td table { border-left: 2px solid var(--line); padding-left: .5rem; }
  thead { display: none; }
}
tr:target, article:target { outline: 2px solid; }
`

/** Writes the index that programs read first (llmstxt.org): a description of the venue, and a line for every operation. */
function indexOf({ info, tags, paths }: OpenApi): string {
  const sections = tags.map(({ name }) => {
    const lines = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, operation]) => operation.tags.includes(name))
        .map(([method, { operationId, summary }]) => {
          const call = `${method.toUpperCase()} ${path}`
          return `- [${call}](/swagger#${operationId}): ${summary}`
        }),
    )
    return `## ${name}\n\n${lines.join('\n')}`
  })
  const documents = [
    ...PAGES.map(
      ({ name, title, summary }) => `- [${title.replaceAll('`', '')}](/swagger/docs/${name}.md): ${summary}`,
    ),
    '- [OpenAPI](/swagger/json): every operation with its fields, answers and refusals',
    '- [AsyncAPI](/swagger/streams): every frame of the sockets',
    '- [Reference](/swagger): the same as a page, with the refusal codes',
  ]
  const summary = info.description.replaceAll('\n', '\n> ')
  return `# ${info.title} ${info.version}\n\n> ${summary}\n\n## Documents\n\n${documents.join('\n')}\n\n${sections.join('\n\n')}\n`
}

/** In reading order. */
const NAMES = [
  ...['quickstart', 'notes', 'batches', 'stages', 'receipts', 'exits'],
  ...['bodies', 'errors', 'streams', 'archive', 'operations', 'security'],
]
/** The build copies the documents next to its bundle. */
const COPIED = joinPath(import.meta.dir, 'documents')
const FOLDER = existsSync(COPIED) ? COPIED : joinPath(import.meta.dir, '../..')

function readText(name: string): string {
  return readFileSync(joinPath(FOLDER, name === 'security' ? 'SECURITY.md' : `docs/${name}.md`), 'utf8')
}

type Page = {
  name: string
  title: string
  /** The sentence below the title. */
  summary: string
  text: string
  html: string
}

export const PAGES: readonly Page[] = NAMES.map((name) => {
  const text = readText(name)
  const title = /^# (.+)$/m.exec(text)![1]!
  const [, summary = ''] = /^# .+\n+(?:#+ .+\n+)?([^\n]+(?:\n[^\n#|`-][^\n]*)*)/m.exec(text) ?? []
  const [sentence = ''] = /^.*?[.:](?=\s|$)/s.exec(summary) ?? []
  return { name, title, summary: sentence.replaceAll('\n', ' '), text, html: pageOf(name, title, text) }
})

/** By file name: `NAME` is the page, `NAME.md` its text. */
const DOCUMENT_FILES: ReadonlyMap<string, { content_type: string; body: string }> = new Map(
  PAGES.flatMap(({ name, text, html }) => [
    [name, { content_type: 'text/html; charset=utf-8', body: html }],
    [`${name}.md`, { content_type: 'text/markdown; charset=utf-8', body: text }],
  ]),
)

function pageOf(name: string, title: string, text: string): string {
  const links = NAMES.map((one) =>
    one === name
      ? `<a href="/swagger/docs/${one}" aria-current="page">${one}</a>`
      : `<a href="/swagger/docs/${one}">${one}</a>`,
  )
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tacit: ${title.replaceAll('`', '')}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/style.css">
</head>
<body class="document">
<nav aria-label="Documents">${links.join(' ')} <a href="/swagger">reference</a></nav>
<main>
${withAnchors(Bun.markdown.html(withServedLinks(text)))}</main>
<footer><p><a href="/swagger/docs/${name}.md">This page as Markdown</a>, <a href="/swagger/llms.txt">index of all documents</a></p></footer>
</body>
</html>
`
}

/** Links between served documents lead to their pages; a link to another file of the repository becomes its path. */
function withServedLinks(text: string): string {
  return text.replace(/\[([^\]\n]+)\]\((?!https?:|#)([^)\s]+)\)/g, (_, label: string, target: string) => {
    const [, name = '', anchor = ''] = /^(?:\.\.\/)?(?:docs\/)?([A-Za-z]+)\.md(#.+)?$/.exec(target) ?? []
    if (NAMES.includes(name.toLowerCase())) return `[${label}](/swagger/docs/${name.toLowerCase()}${anchor})`
    if (target.startsWith('/')) return `[${label}](${target})`
    return `${label} (\`${target.replace(/^(\.\.?\/)+/, '')}\`)`
  })
}

/** Headings get the ids that code hosts give them, so that one link works in both places. */
function withAnchors(html: string): string {
  return html.replace(/<h([2-4])>(.*?)<\/h\1>/g, (_, level: string, content: string) => {
    const id = content
      .replace(/<[^>]+>|&[a-z]+;/g, '')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
    return `<h${level} id="${id}">${content}</h${level}>`
  })
}
