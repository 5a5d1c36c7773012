/**
 * Parses the plain part of YAML 1.2 that a reviewable compose file needs: block mappings, block sequences of scalars,
 * one-line flow sequences of scalars, plain and quoted scalars, comments. Anything else is rejected: it could be read
 * differently from docker.
 */

/** The text uses YAML beyond the plain part; names the line. */
export class UnjudgedYaml extends Error {
  override readonly name = 'UnjudgedYaml'
}

export type YamlMap = Map<string, YamlValue>
export type YamlValue = string | null | YamlMap | (string | null)[]

type Line = { number: number; indent: number; text: string }

/** @throws UnjudgedYaml */
export function parsePlainYaml(text: string): YamlMap {
  const lines = splitLines(text)
  const cursor = { at: 0 }
  const map = readMap(lines, cursor, 0)
  if (cursor.at !== lines.length) throw unjudged(lines[cursor.at]!, 'unexpected indentation')
  return map
}

function unjudged(line: Pick<Line, 'number'>, what: string): UnjudgedYaml {
  return new UnjudgedYaml(`line ${line.number}: ${what}`)
}

function splitLines(text: string): Line[] {
  const lines: Line[] = []
  for (const [index, raw] of text.split('\n').entries()) {
    const line = { number: index + 1, indent: raw.length - raw.trimStart().length, text: raw.trim() }
    if (/[^\x20-\x7e]/.test(raw)) throw unjudged(line, 'a character that is not plain ASCII')
    if (line.text === '' || line.text.startsWith('#')) continue
    if (/^(?:---|\.\.\.|%)/.test(line.text)) throw unjudged(line, 'a document mark')
    lines.push(line)
  }
  return lines
}

const KEY = /^([A-Za-z_][A-Za-z0-9_.-]*):(?:\s+(.*))?$/

function readMap(lines: readonly Line[], cursor: { at: number }, indent: number): YamlMap {
  const map: YamlMap = new Map()
  while (lines[cursor.at]?.indent === indent && !isItem(lines[cursor.at]!)) {
    const line = lines[cursor.at++]!
    const [, key, rest] = KEY.exec(line.text) ?? []
    if (key === undefined) throw unjudged(line, 'expected a plain key')
    if (map.has(key)) throw unjudged(line, 'a key is repeated')
    const value = stripComment(rest ?? '')
    map.set(key, value === '' ? readNested(lines, cursor, indent) : readInline(line, value))
  }
  if (map.size === 0) throw unjudged(lines[cursor.at] ?? { number: 1 }, 'expected a mapping')
  return map
}

function readNested(lines: readonly Line[], cursor: { at: number }, indent: number): YamlValue {
  const next = lines[cursor.at]
  // A sequence may have the indentation of its key.
  if (next !== undefined && isItem(next) && next.indent >= indent) return readList(lines, cursor, next.indent)
  if (next === undefined || next.indent <= indent) return null
  return readMap(lines, cursor, next.indent)
}

function readList(lines: readonly Line[], cursor: { at: number }, indent: number): (string | null)[] {
  const items: (string | null)[] = []
  while (lines[cursor.at]?.indent === indent && isItem(lines[cursor.at]!)) {
    const line = lines[cursor.at++]!
    const value = stripComment(line.text.slice(1).trim())
    if (value === '' || /^-\s/.test(value)) throw unjudged(line, 'a nested list')
    // A plain scalar with ": " would be a mapping inside the list.
    if (!isQuoted(value) && /:(?:\s|$)/.test(value)) throw unjudged(line, 'a mapping in a list')
    items.push(readScalar(line, value))
  }
  return items
}

const isItem = (line: Line): boolean => line.text === '-' || line.text.startsWith('- ')
const isQuoted = (value: string): boolean => /^["']/.test(value)

function stripComment(value: string): string {
  if (isQuoted(value)) return value.replace(/^("[^"]*"|'[^']*')\s+#.*$/, '$1')
  return value.startsWith('#') ? '' : value.replace(/\s+#.*$/, '')
}

function readInline(line: Line, value: string): YamlValue {
  if (!value.startsWith('[')) return readScalar(line, value)
  if (!value.endsWith(']')) throw unjudged(line, 'a list over several lines')
  const inner = value.slice(1, -1).trim()
  if (inner === '') return []
  if (!/^(?:\s*(?:"[^"\\]*"|'[^']*'|[A-Za-z0-9_./-]+)\s*(?:,|$))+$/.test(inner))
    throw unjudged(line, 'a flow list of other things than plain scalars')
  return (inner.match(/"[^"]*"|'[^']*'|[A-Za-z0-9_./-]+/g) ?? []).map((item) => readScalar(line, item))
}

/** Plain scalars keep their text; docker's types for `true` or `1` do not matter here. */
function readScalar(line: Line, value: string): string | null {
  if (/^"[^"\\]*"$/.test(value) || /^'[^']*'$/.test(value)) return value.slice(1, -1)
  if (/^[!&*|>@`"'%{}[\],?]/.test(value) || value.startsWith('<<'))
    throw unjudged(line, 'YAML beyond plain scalars')
  if (/:\s/.test(value)) throw unjudged(line, 'a mapping on one line')
  return value === '~' || value === 'null' ? null : value
}
