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
