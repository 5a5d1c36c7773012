/** Every way a right body can be wrong in one place, and texts that are no such body at all. */
import type { RefusalCode } from '../../../protocol/refusals'
import { MARKER } from './problem_check'

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
