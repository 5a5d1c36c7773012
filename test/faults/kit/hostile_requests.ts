/** Valid requests of every route, each fault they can have, and the check of every refusal. */
import { REFUSAL_BY_CODE, type RefusalCode } from '../../../protocol/refusals'
import type { MountedRoute } from '../../../server/edge/endpoint'
import { MANIFEST } from '../../../server/manifest'
import { MODIFY, PLACE } from '../../routes/bodies'
import { ROWS } from '../../routes/rows'

/** Part of every hostile request, and of no answer. */
export const MARKER = 'zq7hostile'

const FIELDS = ['type', 'title', 'status', 'detail', 'code', 'message', 'request_id', 'applied']
const FACTS = ['field', 'nonce_last', 'retry_after_ms', 'status_now', 'subsystem', 'result']

export type Told = { status: number; content_type: string | null; headers: string; text: string }

/** @param expected codes, by default all known ones @returns what is wrong with the answer's form or code */
export function problemFaults(told: Told, expected?: readonly RefusalCode[]): string[] {
  const { status, content_type, headers, text } = told
  const faults: string[] = []
  if ((text + headers).toLowerCase().includes(MARKER)) faults.push('what was sent is echoed')
  if (content_type !== 'application/problem+json') return [...faults, `${status} of type ${content_type}`]
  const problem = JSON.parse(text) as Record<string, unknown>
  const code = problem['code'] as RefusalCode
  const entry = REFUSAL_BY_CODE.get(code)
  if (entry === undefined) return [...faults, `unknown code ${code}`]
  if (expected !== undefined && !expected.includes(code)) faults.push(`${code} instead of ${expected}`)
  if (status !== entry.status || problem['status'] !== entry.status)
    faults.push(`${code} with status ${status}`)
  if (code === 'internal') faults.push('the venue failed')
  if (problem['applied'] !== 'no') faults.push(`applied ${problem['applied']}`)
  for (const name of FIELDS) if (!(name in problem)) faults.push(`no ${name}`)
  for (const name of Object.keys(problem)) {
    if (!FIELDS.includes(name) && !FACTS.includes(name)) faults.push(`an unknown member ${name}`)
  }
  return faults
}

export async function toldBy(response: Response): Promise<Told> {
  const headers = [...response.headers].map((pair) => pair.join(': ')).join('\n')
  const { status } = response
  return { status, content_type: response.headers.get('content-type'), headers, text: await response.text() }
}

type Sample = {
  mounted: MountedRoute
  /** Upper case. */
  method: string
  path: string
  bearer: boolean
  /** Names of the query it takes; undefined where it declares none. */
  query: string[] | undefined
  body: Record<string, unknown> | undefined
  is_socket: boolean
}

/** Paths of endpoints without a row. */
const PATHS: Record<string, string> = { 'get /evidences/{file}': '/evidences/none.json' }
/** Bodies where that of the row would be rejected for more than its signature or its credentials. */
const BODIES: Record<string, object> = {
  'post /auth/token': {
    api_key: 'a1'.repeat(16),
    api_secret: 'b2'.repeat(32),
    passphrase: 'not-a-passphrase',
  },
  'put /orders/{order_id}': { ...MODIFY, replacement: { ...PLACE, order_id: '3d'.repeat(16) } },
}

export const SAMPLES: Sample[] = MANIFEST.map((mounted) => {
  const { method, path, route } = mounted
  const name = `${method} ${path}`
  const row = ROWS.find(({ endpoint }) => endpoint === name)
  const contract = route.kind === 'endpoint' ? route.contract : undefined
  return {
    mounted,
    method: method.toUpperCase(),
    path: row?.path ?? PATHS[name] ?? path,
    bearer: route.kind === 'stream' || contract?.bearer === true,
    query: contract?.query === undefined ? undefined : Object.keys(contract.query.properties),
    body: contract?.body === undefined ? undefined : structuredClone(bodyOf(name, row?.json)),
    is_socket: route.kind === 'stream',
  }
})

function bodyOf(name: string, of_row: unknown): Record<string, unknown> {
  const body = BODIES[name] ?? of_row
  if (body === undefined)
    throw new Error(`${name} takes a body: give its row in test/routes/rows.ts a \`json\``)
  return body as Record<string, unknown>
}

/** Every path once, without its query, with all its methods. */
export function methodsByPath(): Map<string, string[]> {
  const methods = new Map<string, string[]>()
  for (const { method, path: with_query } of SAMPLES) {
    const path = with_query.split('?')[0]!
    methods.set(path, [...(methods.get(path) ?? []), method])
  }
  return methods
}

type Broken = { what: string; text: string | Uint8Array; codes?: readonly RefusalCode[] }
type Json = Record<string, unknown>

const FORM: readonly RefusalCode[] = [
  'field_unknown',
  'field_missing',
  'field_invalid',
  'field_element_invalid',
  'order_id_zero',
  'anchors_invalid',
  'reshape_invalid',
]
const MALFORMED: readonly RefusalCode[] = ['json_malformed']

/** Each replaces one leaf by a value of another form, which the venue must reject as malformed. */
const REPLACEMENTS: ((value: unknown) => unknown)[] = [
  () => null,
  () => true,
  () => [],
  () => ({ [MARKER]: MARKER }),
  () => MARKER,
  () => '',
  () => ` ${MARKER}`,
  () => 1e300,
  () => -1,
  () => 1.5,
  () => '1e3',
  () => '-1',
  () => '007',
  () => '99999999999999999999999999',
  () => MARKER.repeat(1_000),
  () => '\u0000',
  (value) => (typeof value === 'string' ? 1 : String(value)),
]
/** Hex alone: every width and case is exact. */
const HEX = /^(?:[0-9a-f]{2}){16,}$/
const HEX_REPLACEMENTS: ((value: string) => string)[] = [
  (value) => value.toUpperCase(),
  (value) => value.slice(2),
  (value) => `${value}00`,
  (value) => `0x${value.slice(2)}`,
  (value) => `${value.slice(1)}g`,
]

function* leaves(value: unknown, path: (string | number)[] = []): Generator<(string | number)[]> {
  if (typeof value !== 'object' || value === null) yield path
  else for (const [name, inner] of Object.entries(value)) yield* leaves(inner, [...path, name])
}

function replaced(body: Json, path: readonly (string | number)[], change: (value: never) => unknown): string {
  const copy = structuredClone(body)
  let at = copy as Json
  for (const step of path.slice(0, -1)) at = at[step] as Json
  const last = path.at(-1)!
  at[last] = change(at[last] as never)
  return JSON.stringify(copy)
}

export function brokenLeaves(body: Json, free_text: readonly string[]): Broken[] {
  const broken: Broken[] = []
  for (const path of leaves(body)) {
    const value = path.reduce((at, step) => (at as Json)[step], body as unknown)
    // Credentials are any text; only the login rejects wrong ones.
    if (free_text.includes(String(path[0]))) continue
    // A symbol of another instrument has the form of one.
    const codes = path.at(-1) === 'symbol' ? ([...FORM, 'instrument_unknown'] as const) : FORM
    const changes = [...REPLACEMENTS, ...(HEX.test(String(value)) ? HEX_REPLACEMENTS : [])]
    for (const change of changes) {
      const text = replaced(body, path, change as never)
      if (text !== JSON.stringify(body))
        broken.push({ what: `${path.join('.')} = ${text.slice(0, 60)}`, text, codes })
    }
  }
  return broken
}

export function brokenTexts(body: Json): Broken[] {
  const good = JSON.stringify(body)
  const first = Object.keys(body)[0]!
  const deep = '['.repeat(8_000) + ']'.repeat(8_000)
  const bytes = new TextEncoder().encode(good)
  bytes[bytes.length - 2] = 0xff
  return [
    { what: 'no body', text: '', codes: MALFORMED },
    { what: 'half a body', text: good.slice(0, -1), codes: MALFORMED },
    { what: 'text behind it', text: `${good}${MARKER}`, codes: MALFORMED },
    { what: 'single quotes', text: good.replaceAll('"', "'"), codes: MALFORMED },
    { what: 'a comment', text: `/*${MARKER}*/${good}`, codes: MALFORMED },
    { what: 'NaN', text: good.replace(/:"[^"]*"/, ':NaN'), codes: MALFORMED },
    { what: 'a byte order mark', text: `\ufeff${good}`, codes: MALFORMED },
    { what: 'bytes that are no UTF-8', text: bytes, codes: MALFORMED },
    { what: 'a scalar', text: '1', codes: FORM },
    { what: 'null', text: 'null', codes: FORM },
    { what: 'a text', text: `"${MARKER}"`, codes: FORM },
    { what: 'an empty object', text: '{}', codes: ['field_missing'] },
    { what: 'nesting', text: deep, codes: [...FORM, 'json_malformed'] },
    { what: 'an unknown field', text: good.replace(/}$/, `,"${MARKER}":1}`), codes: ['field_unknown'] },
    {
      what: '__proto__',
      text: good.replace(/}$/, `,"__proto__":{"${MARKER}":1}}`),
      codes: ['field_unknown', 'key_duplicate'],
    },
    {
      what: 'a key named twice',
      text: good.replace(/^{/, `{"${first}":"${MARKER}",`),
      codes: ['key_duplicate'],
    },
    {
      what: 'a key named twice, escaped',
      text: good.replace(/^{/, `{"\\u${hex4(first)}${first.slice(1)}":"x",`),
      codes: ['key_duplicate'],
    },
    {
      what: 'too much',
      text: good.replace(/}$/, `,"${MARKER}":"${'x'.repeat(17_000)}"}`),
      codes: ['body_too_large'],
    },
  ]
}

function hex4(text: string): string {
  return text.charCodeAt(0).toString(16).padStart(4, '0')
}
