/**
 * Parses a value by its schema, in one walk: texts become bytes and integers, and a value that does not fit becomes the
 * refusal that is first in the order of checks.
 */

import type { TObject, TSchema } from '@sinclair/typebox'
import { REFUSALS, Refusal, type RefusalCode } from '../refusals'
import { DECODE, type Parsed, type RefusalHint, type TextParsing, USABLE } from './values'

/** Position of each code in the order of checks. */
const RANK = new Map(REFUSALS.map((entry, index) => [entry.code, index]))
const FAILED = Symbol('failed')

/** The root of a query's parser. */
const QUERY = 'query'
/** What a misspelled name looks like, and a token, key or id does not. */
const NAME = /^(?=.{1,32}$)[A-Za-z]+(_[A-Za-z]+)*$/

/** Returns FAILED at the first error, or, with `errors`, after it has reported all of them. */
type Parse = (value: unknown, errors: Errors | undefined) => unknown

/** The schema of a text or list with the parsing that values.ts adds to it. */
type Parseable = TSchema &
  RefusalHint & { [DECODE]?: TextParsing; [USABLE]?: (entries: unknown[]) => boolean }

type Given = Readonly<Record<string, unknown>>

/** Keeps the first error in the order of checks. */
class Errors {
  /** From the root to the value that is being parsed: `.name` or `[index]`. */
  private readonly path: string[] = []
  private first: { code: RefusalCode; field: string } | undefined

  constructor(private readonly root: string) {}

  parse(parse: Parse, value: unknown, step: string): unknown {
    this.path.push(step)
    const parsed = parse(value, this)
    this.path.pop()
    return parsed
  }

  report(code: RefusalCode, step = ''): void {
    if (this.first !== undefined && RANK.get(code)! >= RANK.get(this.first.code)!) return
    const field = (this.path.join('') + step).replace(/^\./, '')
    this.first = { code, field: field === '' ? this.root : field }
  }

  reportUnknown(given: Given, names: ReadonlySet<string>): void {
    const in_query = this.root === QUERY && this.path.length === 0
    const named = in_query
      ? Object.keys(given).find((name) => !names.has(name) && NAME.test(name))
      : undefined
    this.report('field_unknown', named === undefined ? '' : `.${named}`)
  }

  /** Precedes the fields themselves, because an error within a field comes after the errors of its object. */
  reportMissing(fields: readonly { name: string; step: string; required: boolean }[], given: Given): void {
    for (const { name, step, required } of fields) {
      if (required && given[name] === undefined) this.report('field_missing', step)
    }
  }

  refusal(): Refusal {
    const { code, field } = this.first!
    return new Refusal(code, { field })
  }
}

/**
 * The parser of a schema. It throws a Refusal that names the `field`, never its value. A name that the caller chose is repeated
 * only for an unknown key of a query, and only if it has the form of a name.
 * @param root names the value itself in `field`
 */
export function parserOf<S extends TSchema>(schema: S, root = 'body'): (value: unknown) => Parsed<S> {
  const parse = parseOf(schema)
  return (value) => {
    const parsed = parse(value, undefined)
    if (parsed !== FAILED) return parsed as Parsed<S>
    // A second walk, for invalid values only: a value that fits costs no path.
    const errors = new Errors(root)
    parse(value, errors)
    throw errors.refusal()
  }
}

function parseOf(schema: Parseable): Parse {
  if (schema[DECODE] !== undefined) return decoded(schema[DECODE], schema['x-refusal']?.format)
  if (schema['anyOf'] !== undefined) return union(schema['anyOf'])
  if ('const' in schema) return fitting((value) => value === schema['const'])
  const { type, minimum, maximum, minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern = '' } = schema
  const form = new RegExp(pattern)
  switch (type) {
    case 'object':
      return object(schema as unknown as TObject)
    case 'array':
      return list(schema)
    case 'string':
      return fitting(
        (value) =>
          typeof value === 'string' &&
          value.length >= minLength &&
          value.length <= maxLength &&
          form.test(value),
      )
    case 'integer':
      return fitting(
        (value) =>
          typeof value === 'number' &&
          Number.isInteger(value) &&
          value >= minimum &&
          value <= maximum &&
          !Object.is(value, -0),
      )
    case 'boolean':
      return fitting((value) => typeof value === 'boolean')
    case 'null':
      return fitting((value) => value === null)
    default:
      throw new TypeError(`no parser for the type ${type}`)
  }
}

function failed(errors: Errors | undefined, code: RefusalCode): typeof FAILED {
  errors?.report(code)
  return FAILED
}

function fitting(fits: (value: unknown) => boolean): Parse {
  return (value, errors) => (fits(value) ? value : failed(errors, 'field_invalid'))
}

function decoded({ decode, usable, keeps }: TextParsing, unusable: RefusalCode = 'field_invalid'): Parse {
  return (value, errors) => {
    const parsed = typeof value === 'string' ? decode(value) : undefined
    if (parsed === undefined) return failed(errors, 'field_invalid')
    if (!usable(parsed)) return failed(errors, unusable)
    return keeps ? value : parsed
  }
}

function object({ properties, required = [] }: TObject): Parse {
  const names = new Set(Object.keys(properties))
  const fields = Object.entries(properties).map(([name, schema]) => ({
    name,
    step: `.${name}`,
    required: required.includes(name),
    parse: parseOf(schema),
  }))
  return (value, errors) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return failed(errors, 'field_invalid')
    }
    const given = value as Given
    let fits = true
    for (const name in given) if (!names.has(name)) fits = false
    // The name of an unknown field is the caller's text, so the refusal names the object that contains it.
    if (!fits) errors?.reportUnknown(given, names)
    errors?.reportMissing(fields, given)
    const parsed: Record<string, unknown> = {}
    for (const { name, step, required, parse } of fields) {
      if (!fits && errors === undefined) return FAILED
      const one = given[name]
      if (one === undefined) {
        fits &&= !required
        parsed[name] = undefined
        continue
      }
      parsed[name] = errors === undefined ? parse(one, undefined) : errors.parse(parse, one, step)
      fits &&= parsed[name] !== FAILED
    }
    return fits ? parsed : FAILED
  }
}

function list(schema: Parseable): Parse {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY, items } = schema
  const parse = parseOf(items)
  const usable = schema[USABLE] ?? (() => true)
  const unusable = schema['x-refusal']?.items ?? 'field_invalid'
  return (value, errors) => {
    if (!Array.isArray(value)) return failed(errors, 'field_invalid')
    let fits = value.length >= minItems && value.length <= maxItems
    if (!fits) failed(errors, unusable)
    const parsed: unknown[] = []
    for (let at = 0; at < value.length; at += 1) {
      if (!fits && errors === undefined) return FAILED
      const one = value[at]
      parsed.push(errors === undefined ? parse(one, undefined) : errors.parse(parse, one, `[${at}]`))
      fits &&= parsed[at] !== FAILED
    }
    if (!fits) return FAILED
    return usable(parsed) ? parsed : failed(errors, unusable)
  }
}

/** Words of a closed list; an object or a list of them, whose refusal names the field within; or the first that fits. */
function union(branches: readonly TSchema[]): Parse {
  const words = wordsOf(branches)
  if (words !== undefined) return fitting((value) => words.has(value))
  const parses = branches.map(parseOf)
  const listed = branches.findIndex(({ type }) => type === 'array')
  const single = branches.findIndex(({ type }) => type === 'object')
  if (listed !== -1 && single !== -1) {
    return (value, errors) => parses[Array.isArray(value) ? listed : single]!(value, errors)
  }
  return (value, errors) => {
    for (const parse of parses) {
      const parsed = parse(value, undefined)
      if (parsed !== FAILED) return parsed
    }
    return failed(errors, 'field_invalid')
  }
}

/** The values of a union of literals; undefined for any other. */
function wordsOf(branches: readonly TSchema[]): Set<unknown> | undefined {
  const words = new Set<unknown>()
  for (const branch of branches) {
    const inner = branch['anyOf'] === undefined ? undefined : wordsOf(branch['anyOf'])
    if (inner !== undefined) for (const word of inner) words.add(word)
    else if ('const' in branch) words.add(branch['const'])
    else return undefined
  }
  return words
}
