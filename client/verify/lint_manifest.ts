/** Lints a manifest, and the plain YAML in it, against the list of all that one may contain, before its hash is trusted. */
import { utf8 } from '../../protocol/bytes'
import {
  APP_COMPOSE_FORM,
  COMPOSE_FORM,
  canonicalJson,
  type Form,
  isSecretName,
  MANIFEST_BYTES_MAX,
  type Mapping,
  referenceTo,
  SERVICE,
} from '../../protocol/tdx/venue_manifest'
import { parseJson } from './json_document'
import { printable } from './transcript'

/**
 * Lints a manifest against the list of all that one may contain (`protocol/tdx/venue_manifest.ts`), before its hash is
 * trusted. The verifying client and the operator's tool use the same function.
 */

/** A hostile manifest must not fill the transcript. */
const FAULTS_MAX = 100

/** One line per fault, with its place; none when the manifest is allowed. The environment is that of the service. */
type Linted = { faults: string[]; environment: YamlMap }
const rejected = (...faults: string[]): Linted => ({ faults, environment: new Map() })

/**
 * @param app_compose exact text of app-compose.json.
 * @param environment_names secrets that the manifest may take from the encrypted environment, which the host can replace.
 */
export function lintManifest(app_compose: string, environment_names: readonly string[]): Linted {
  if (utf8(app_compose).length > MANIFEST_BYTES_MAX) return rejected('it is longer than 256 KiB')
  const { faults, environment } = lintText(app_compose, environment_names)
  if (faults.length <= FAULTS_MAX) return { faults, environment }
  return rejected(...faults.slice(0, FAULTS_MAX), `${faults.length - FAULTS_MAX} more`)
}

function lintText(text: string, environment_names: readonly string[]): Linted {
  const manifest = parseJson(text)
  if (manifest === undefined) return rejected('it is not JSON')
  const faults = mismatches(manifest, APP_COMPOSE_FORM, '')
  if (typeof manifest !== 'object' || manifest === null) return rejected(...faults)
  const member = (name: string): unknown =>
    Object.hasOwn(manifest, name) ? Reflect.get(manifest, name) : undefined
  if (faults.length === 0) faults.push(...lintForm(text, manifest))
  const compose = member('docker_compose_file')
  if (typeof compose !== 'string') return rejected(...faults)
  const linted = lintCompose(compose, member('allowed_envs'), environment_names)
  return { ...linted, faults: [...faults, ...linted.faults] }
}

/** One value has one text: without this, parsers that keep the first of two equal keys read another manifest. */
function lintForm(text: string, manifest: unknown): string[] {
  const canonical = canonicalJson(manifest)
  if (text === canonical) return []
  let at = 0
  while (text[at] === canonical[at]) at++
  const excerpt = quoted(text.slice(Math.max(at - 8, 0), at + 32))
  return [
    `character ${at + 1}: must be JSON with sorted keys, each once, and no white space, near ${excerpt}`,
  ]
}

function lintCompose(text: string, allowed_envs: unknown, environment_names: readonly string[]): Linted {
  let file: YamlMap
  try {
    file = parsePlainYaml(text)
  } catch (error) {
    if (error instanceof UnjudgedYaml) return rejected(`compose file: ${error.message}`)
    throw error
  }
  const faults = mismatches(file, COMPOSE_FORM, 'compose file: ')
  const environment = environmentOf(file)
  faults.push(...lintEnvironment(environment, allowed_envs, environment_names))
  return { faults, environment }
}

/** The settings of the service; empty where the file has none. */
export function environmentOf(file: YamlMap): YamlMap {
  const inside = (map: unknown, key: string) => (map instanceof Map ? map.get(key) : undefined)
  const environment = inside(inside(inside(file, 'services'), SERVICE), 'environment')
  return environment instanceof Map ? environment : new Map()
}

/** Secrets that the compose file takes from the encrypted environment, sorted. */
export function secretsTaken(environment: YamlMap): string[] {
  return [...environment].flatMap(([name, value]) => (value === referenceTo(name) ? [name] : [])).sort()
}

function lintEnvironment(
  environment: YamlMap,
  allowed_envs: unknown,
  environment_names: readonly string[],
): string[] {
  const place = `compose file: services.${SERVICE}.environment`
  const taken = secretsTaken(environment).filter(isSecretName)
  const faults = taken
    .filter((name) => !environment_names.includes(name))
    .map((name) => `${place}.${name}: the encrypted environment may not deliver it`)
  if (Array.isArray(allowed_envs) && allowed_envs.join() !== taken.join())
    faults.push(`allowed_envs: must be ${JSON.stringify(taken)}, the names that the compose file takes`)
  const rpc_urls = environment.get('SOLANA_RPC_URL')
  const urls = typeof rpc_urls === 'string' ? rpc_urls.split(',') : []
  if (!urls.every((url) => URL.canParse(url))) faults.push(`${place}.SOLANA_RPC_URL: must be a list of URLs`)
  // A final dot names the same host.
  else if (new Set(urls.map((url) => new URL(url).hostname.replace(/\.$/, ''))).size === 1)
    faults.push(`${place}.SOLANA_RPC_URL: two providers at least; one alone could hide blocks`)
  return faults
}

/**
 * @param value of JSON, or of plain YAML with its maps.
 * @param place names the value in messages; empty for the whole.
 * @returns one line per difference
 */
function mismatches(value: unknown, form: Form, place: string): string[] {
  if (form === null || typeof form !== 'object')
    return value === form ? [] : [fault(place, form === null ? 'must be empty' : `must be ${shown(form)}`)]
  if (isList(form)) return listMismatches(value, form, place)
  switch (form.kind) {
    case 'one_of':
      return form.values.some((one) => one === value)
        ? []
        : [fault(place, `must be ${form.values.map(shown).join(' or ')}`)]
    case 'pattern':
      return typeof value === 'string' && form.pattern.test(value)
        ? []
        : [fault(place, `must be ${form.meaning}`)]
    case 'each':
      if (!Array.isArray(value)) return [fault(place, 'must be a list')]
      return value.flatMap((item, at) => mismatches(item, form.item, `${place}[${at}]`))
    case 'mapping':
      return mappingMismatches(value, form, place)
  }
}

const isList = (form: object): form is readonly Form[] => Array.isArray(form)

function listMismatches(value: unknown, form: readonly Form[], place: string): string[] {
  if (!Array.isArray(value) || value.length !== form.length) {
    const items = form.some((item) => typeof item === 'object') ? `${form.length} entries` : shown(form)
    return [fault(place, `must be a list of exactly ${items}`)]
  }
  return form.flatMap((item, at) => mismatches(value[at], item, `${place}[${at}]`))
}

function mappingMismatches(value: unknown, form: Mapping, place: string): string[] {
  const entries = entriesOf(value)
  if (entries === undefined) return [fault(place, 'must be a mapping')]
  const found = new Set(entries.map(([key]) => key))
  const missing = Object.keys(form.keys).filter((key) => !found.has(key) && !form.optional.includes(key))
  return [
    ...entries.flatMap(([key, inner]) => {
      const expected = Object.hasOwn(form.keys, key) ? form.keys[key] : undefined
      if (expected === undefined) return [fault(below(place, key), 'not an allowed key')]
      return mismatches(inner, expected, below(place, key))
    }),
    ...missing.map((key) => fault(below(place, key), 'missing')),
  ]
}

function entriesOf(value: unknown): [string, unknown][] | undefined {
  if (value instanceof Map) return [...value]
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return Object.entries(value)
}

const fault = (place: string, demand: string): string => (place === '' ? demand : `${place}: ${demand}`)
const below = (place: string, key: string): string => {
  const name = /^[\w.-]{1,64}$/.test(key) ? key : quoted(key)
  if (place === '') return name
  return place.endsWith(': ') ? `${place}${name}` : `${place}.${name}`
}
const shown = (value: unknown): string => JSON.stringify(value)

/** Quoted, cut, and printable: the text of a manifest ends on terminals. */
const quoted = (text: string): string => printable(JSON.stringify(text.slice(0, 64)))

/**
 * Parses the plain part of YAML that a reviewable compose file needs: block mappings, block sequences of scalars, one-line
 * flow sequences of quoted scalars, plain and quoted scalars, comments. Anything else is rejected rather than read
 * differently from Docker: a plain scalar that some version of YAML reads as another type must be quoted. One pass, no
 * backtracking.
 */

/** The text uses YAML beyond the plain part; names the line. */
export class UnjudgedYaml extends Error {
  override readonly name = 'UnjudgedYaml'
}

export type YamlMap = Map<string, YamlValue>
type YamlScalar = string | number | boolean
type YamlValue = YamlScalar | null | YamlMap | YamlScalar[]

type Line = { number: number; indent: number; text: string }

/** Deeper than any compose file; bounds the recursion. */
const DEPTH_MAX = 16

/** @throws UnjudgedYaml */
export function parsePlainYaml(text: string): YamlMap {
  const lines = splitLines(text)
  const cursor = { at: 0 }
  const map = readMap(lines, cursor, 0, 0)
  if (cursor.at !== lines.length) throw unjudged(lines[cursor.at]!, 'unexpected indentation')
  return map
}

function unjudged(line: Pick<Line, 'number'>, reason: string): UnjudgedYaml {
  return new UnjudgedYaml(`line ${line.number}: ${reason}`)
}

function splitLines(text: string): Line[] {
  const lines: Line[] = []
  for (const [index, raw] of text.split('\n').entries()) {
    const line = { number: index + 1, indent: raw.length - raw.trimStart().length, text: raw.trim() }
    if (/[^\x20-\x7e]/.test(raw)) throw unjudged(line, 'a character that is not printable ASCII')
    if (line.text === '' || line.text.startsWith('#')) continue
    if (/^(?:---|\.\.\.|%)/.test(line.text)) throw unjudged(line, 'a document mark')
    lines.push(line)
  }
  return lines
}

/** Words that a version of YAML reads as another type than text, in any case. */
const TYPED_WORDS = new Set(['null', 'true', 'false', 'yes', 'no', 'on', 'off', 'y', 'n'])
const KEY = /^[A-Za-z_][A-Za-z0-9_.-]*$/

function readMap(lines: readonly Line[], cursor: { at: number }, indent: number, depth: number): YamlMap {
  const map: YamlMap = new Map()
  if (depth > DEPTH_MAX) throw unjudged(lines[cursor.at]!, 'too many levels')
  while (lines[cursor.at]?.indent === indent && !isItem(lines[cursor.at]!)) {
    const line = lines[cursor.at++]!
    const { key, rest } = splitKey(line)
    if (map.has(key)) throw unjudged(line, 'a key is repeated')
    const value = stripComment(line, rest)
    map.set(key, value === '' ? readNested(lines, cursor, indent, depth) : readInline(line, value))
  }
  if (map.size === 0) throw unjudged(lines[cursor.at] ?? { number: 1 }, 'expected a mapping')
  return map
}

/** `key:` or `key: rest`. */
function splitKey(line: Line): { key: string; rest: string } {
  const at = line.text.indexOf(':')
  const key = line.text.slice(0, Math.max(at, 0))
  const after = line.text.slice(at + 1)
  const is_plain = KEY.test(key) && !TYPED_WORDS.has(key.toLowerCase())
  if (!is_plain || !(after === '' || after.startsWith(' '))) throw unjudged(line, 'expected a plain key')
  return { key, rest: after.trim() }
}

function readNested(
  lines: readonly Line[],
  cursor: { at: number },
  indent: number,
  depth: number,
): YamlValue {
  const next = lines[cursor.at]
  // A sequence may have the indentation of its key.
  if (next !== undefined && isItem(next) && next.indent >= indent) return readList(lines, cursor, next.indent)
  if (next === undefined || next.indent <= indent) return null
  return readMap(lines, cursor, next.indent, depth + 1)
}

function readList(lines: readonly Line[], cursor: { at: number }, indent: number): YamlScalar[] {
  const items: YamlScalar[] = []
  while (lines[cursor.at]?.indent === indent && isItem(lines[cursor.at]!)) {
    const line = lines[cursor.at++]!
    const value = stripComment(line, line.text.slice(1).trim())
    if (value === '' || value === '-' || value.startsWith('- ')) throw unjudged(line, 'a nested list')
    items.push(readScalar(line, value))
  }
  return items
}

const isItem = (line: Line): boolean => line.text === '-' || line.text.startsWith('- ')
const quoteOf = (value: string): string | undefined => (/^["']/.test(value) ? value[0] : undefined)

/** A comment begins at the start or after a space, outside of quotes. */
function stripComment(line: Line, value: string): string {
  const quote = quoteOf(value)
  const end = quote === undefined ? 0 : value.indexOf(quote, 1) + 1
  if (quote !== undefined && end === 0) throw unjudged(line, 'a quoted text over several lines')
  if (value.startsWith('#')) return ''
  const at = value.indexOf(' #', end)
  return at === -1 ? value : value.slice(0, at).trimEnd()
}

function readInline(line: Line, value: string): YamlValue {
  if (!value.startsWith('[')) return readScalar(line, value)
  if (!value.endsWith(']')) throw unjudged(line, 'a list over several lines')
  const inner = value.slice(1, -1).trim()
  const items: string[] = []
  const item = /(?:"([^"\\]*)"|'([^']*)') *(,? *)/y
  while (item.lastIndex < inner.length) {
    const [, double, single, comma] = item.exec(inner) ?? []
    // A comma between two items, none after the last.
    if (comma === undefined || comma.startsWith(',') !== item.lastIndex < inner.length)
      throw unjudged(line, 'a flow list of other items than quoted texts')
    items.push(double ?? single!)
  }
  return items
}

function readScalar(line: Line, value: string): YamlScalar {
  const quote = quoteOf(value)
  if (quote !== undefined) {
    const inner = value.slice(1, -1)
    const is_whole = value.length >= 2 && value.indexOf(quote, 1) === value.length - 1
    if (!is_whole || (quote === '"' && inner.includes('\\'))) throw unjudged(line, 'quotes within quotes')
    return inner
  }
  if (value === 'true' || value === 'false') return value === 'true'
  if (/^(?:0|[1-9][0-9]{0,8})$/.test(value)) return Number(value)
  if (!/^[A-Za-z/$]/.test(value) || TYPED_WORDS.has(value.toLowerCase()))
    throw unjudged(line, 'a text that must be quoted')
  if (value.includes(': ') || value.endsWith(':')) throw unjudged(line, 'a mapping on one line')
  return value
}
