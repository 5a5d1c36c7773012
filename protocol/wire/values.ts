/** Describes every value of bodies, queries and answers once, and parses by its schema (protocol.md "Values on the wire"). */

import {
  FormatRegistry,
  type Static,
  type StringOptions,
  type TArray,
  type TObject,
  type TOptional,
  type TSchema,
  type TString,
  type TUnion,
  Type,
} from '@sinclair/typebox'
import { decodeBase58 } from '../base58'
import { compareBytes, fromHex, isZero } from '../bytes'
import { ANCHORS_MAX } from '../limits'
import { isFieldElement } from '../notes/poseidon'
import { REFUSALS, Refusal, type RefusalCode } from '../refusals'
import { type Amount, type BaseUnits, type Price, parseU64 } from '../units'

export { type Static, type TObject, type TSchema, Type as t } from '@sinclair/typebox'

// Answers are checked by TypeBox, which knows a format by its name.
FormatRegistry.Set('u64', (given) => parseU64(given) !== undefined)
FormatRegistry.Set('order-id', (given) => /[^0]/.test(given))

/** Key of the parsing of a text; TypeBox and JSON ignore it. */
const DECODE = Symbol('decode')
/** Key of a check over the parsed entries of a list; its refusal is `items` of the hint. */
const USABLE = Symbol('usable')

type TextParsing = {
  /** Undefined for a wrong form: `field_invalid`. */
  decode(text: string): unknown
  /** False for a value that has its form and is rejected by `format` of the hint. */
  usable(value: unknown): boolean
  /** The parsed value is the valid text itself. */
  keeps: boolean
}
/** A text whose parsed value is a T; of `parsed` only the type exists. */
type TText<T> = TString & { [DECODE]: TextParsing & { readonly parsed?: T } }

/** The value of a valid S after parsing; an optional field that is absent is undefined. */
export type Parsed<S> =
  S extends TText<infer T>
    ? T
    : S extends TObject<infer P>
      ? { [K in keyof P]: Parsed<P[K]> | (P[K] extends TOptional<TSchema> ? undefined : never) }
      : S extends TArray<infer I>
        ? Parsed<I>[]
        : S extends TUnion<infer U>
          ? Parsed<U[number]>
          : S extends TSchema
            ? Static<S>
            : never

/** Assigns a refusal code to the failure of one keyword; the default is `field_invalid`. */
export type RefusalHint = { 'x-refusal'?: Partial<Record<'format' | 'items', RefusalCode>> }
const hint = (format: RefusalCode): RefusalHint => ({ 'x-refusal': { format } })

function text<T>(
  options: StringOptions,
  decode: (text: string) => T | undefined,
  usable: (value: T) => boolean = () => true,
): TText<T> {
  return Object.assign(Type.String(options), {
    [DECODE]: { decode, usable: usable as (value: unknown) => boolean, keeps: false },
  })
}
const hex = (width: number, options: StringOptions, usable?: (value: Uint8Array) => boolean) =>
  text({ pattern: `^[0-9a-f]{${width * 2}}$`, ...options }, (given) => fromHex(given, width), usable)
const base58 = (shortest: number, longest: number, width: number, description: string) =>
  text({ pattern: `^[1-9A-HJ-NP-Za-km-z]{${shortest},${longest}}$`, description }, (given) =>
    decodeBase58(given, width),
  )

/** The same value where the code that reads it wants its text, such as a key of a table. */
export function asText(schema: TText<unknown>): TText<string> {
  const { decode, usable } = schema[DECODE]
  return { ...schema, [DECODE]: { decode, usable, keeps: true } }
}

/** An object with exactly these fields. */
export const exact = <P extends Record<string, TSchema>>(properties: P) =>
  Type.Object(properties, { additionalProperties: false })
/** One of these words. */
export const oneOf = <const W extends readonly string[]>(words: W, options: { description?: string } = {}) =>
  Type.Union(
    words.map((word) => Type.Literal(word as W[number])),
    options,
  )
export const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])
/** A list of `minItems` to `maxItems` entries that together satisfy `usable`; otherwise rejected with `code`. */
export function group<S extends TSchema>(
  item: S,
  options: { minItems: number; maxItems: number; description?: string },
  code: RefusalCode,
  usable: (entries: Parsed<S>[]) => boolean,
) {
  const list = Type.Array(item, { ...options, 'x-refusal': { items: code } })
  return Object.assign(list, { [USABLE]: usable })
}

/** Values are never coerced: `"5"` is not an integer. */
export const Integer = (minimum: number, maximum: number, description?: string) =>
  Type.Integer({ minimum, maximum, ...(description === undefined ? {} : { description }) })
export const Slot = Integer(0, Number.MAX_SAFE_INTEGER, 'Blockchain slot.')
export const Seq = Integer(0, Number.MAX_SAFE_INTEGER, 'Event number of the account.')
export const Count = Integer(0, Number.MAX_SAFE_INTEGER)
export const Milliseconds = Integer(0, Number.MAX_SAFE_INTEGER, 'Milliseconds.')

const U64_TEXT = 'Unsigned 64-bit integer as a canonical decimal string.'
/** A u64 from 1. */
const positive = (description: string) =>
  text({ pattern: '^[1-9][0-9]{0,19}$', format: 'u64', description }, parseU64, (value) => value > 0n)
export const U64 = text({ pattern: '^(0|[1-9][0-9]{0,19})$', format: 'u64', description: U64_TEXT }, parseU64)
export const PositiveU64 = positive(U64_TEXT)
/** A u64 whose parsed value carries the unit of its field. */
const unit = <U>(schema: TText<bigint>) => schema as TText<unknown> as TText<U>
export const AmountText = unit<Amount>(U64)
export const PositiveAmountText = unit<Amount>(PositiveU64)
export const BaseUnitsText = unit<BaseUnits>(U64)
export const PriceText = unit<Price>(U64)
export const Nonce = positive('Replay-protection nonce from 1, strictly increasing per trading key.')

export const FieldElement = hex(
  32,
  {
    format: 'field-element',
    description: 'Non-zero element of the BN254 scalar field, 32 bytes big-endian, lowercase hex.',
    ...hint('field_element_invalid'),
  },
  isUsableElement,
)
export const OrderId = hex(
  16,
  {
    format: 'order-id',
    description: 'Client-chosen order id, 16 bytes, never zero.',
    ...hint('order_id_zero'),
  },
  (id) => !isZero(id),
)
export const Hex16 = (description: string) => hex(16, { description })
export const CommandId = Hex16('First 16 bytes of the SHA-256 of the canonical body.')
export const Hash = hex(32, { description: '32 bytes, lowercase hex.' })
export const Bytes = Type.String({ pattern: '^([0-9a-f]{2})*$', description: 'Bytes, lowercase hex.' })
export const Signature = hex(64, { description: 'Ed25519 signature over the canonical body, lowercase hex.' })
export const PublicKey = base58(32, 44, 32, 'Ed25519 public key, base58.')
export const Address = base58(32, 44, 32, 'Solana address, base58.')
export const TransactionSignature = base58(64, 88, 64, 'Solana transaction signature, base58.')

export const SymbolName = Type.String({ pattern: '^[A-Z0-9-]{1,16}$', description: 'Instrument symbol.' })
export const SourceName = Type.String({ pattern: '^[a-z0-9-]{1,16}$' })
export const Side = oneOf(['buy', 'sell'])
export const OrderType = oneOf(['limit', 'ioc', 'fok'])
export const Anchors = group(
  hex(32, {}),
  {
    minItems: 1,
    maxItems: ANCHORS_MAX,
    description: 'Continuation anchors: distinct, non-zero field elements.',
  },
  'anchors_invalid',
  areAnchors,
)

function isUsableElement(bytes: Uint8Array): boolean {
  return isFieldElement(bytes) && !isZero(bytes)
}

function areAnchors(anchors: Uint8Array[]): boolean {
  for (let at = 0; at < anchors.length; at++) {
    if (!isUsableElement(anchors[at]!)) return false
    for (let before = 0; before < at; before++)
      if (compareBytes(anchors[before]!, anchors[at]!) === 0) return false
  }
  return true
}

/** An integer in a query, where every value is text; the document calls it an integer. */
export function QueryInteger(description: string, minimum = 0, maximum = Number.MAX_SAFE_INTEGER) {
  return text({ 'x-integer': { minimum, maximum }, description }, (given) => {
    const value = /^(0|[1-9][0-9]{0,15})$/.test(given) ? Number(given) : Number.NaN
    return value >= minimum && value <= maximum ? value : undefined
  })
}

/** Position of each code in the order of checks. */
const RANK = new Map(REFUSALS.map((entry, index) => [entry.code, index]))
const FAILED = Symbol('failed')

/** The root of a query's parser. */
const QUERY = 'query'
/** The form of a misspelled name, which no token, key or id has. */
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
  // Values begin as copies of one object: adding the fields one by one takes longer.
  const template: Record<string, unknown> = Object.fromEntries(fields.map(({ name }) => [name, undefined]))
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
    const parsed = { ...template }
    for (const { name, step, required, parse } of fields) {
      if (!fits && errors === undefined) return FAILED
      const one = given[name]
      if (one === undefined) {
        fits &&= !required
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
