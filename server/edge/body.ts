/** Parses requests and frames: bounded bodies, queries, strict JSON, and schemas whose first error becomes a refusal. */

import type { Static, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import { BODY_BYTES_MAX } from '../../protocol/limits'
import { REFUSALS, Refusal, type RefusalCode } from '../../protocol/refusals'
import { SCHEMA_ERRORS_MAX } from '../limits'
import type { RefusalHint } from '../shapes/wire'

// Bodies.

/** The bytes of a body; empty without one. Throws `body_too_large`, and `json_malformed` for an incomplete body. */
export function readBounded(request: Request): Promise<Uint8Array> {
  const declared = request.headers.get('content-length')
  if (declared === null) return readUndeclared(request).catch(incomplete)
  // The runtime reads at most the declared length.
  if (Number(declared) > BODY_BYTES_MAX) return Promise.reject(new Refusal('body_too_large'))
  return request.bytes().catch(incomplete)
}

async function readUndeclared({ body }: Request): Promise<Uint8Array> {
  if (body === null) return new Uint8Array(0)
  const bytes = new Uint8Array(BODY_BYTES_MAX)
  let length = 0
  const reader = body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return bytes.subarray(0, length)
    if (length + value.length > BODY_BYTES_MAX) {
      await reader.cancel()
      throw new Refusal('body_too_large')
    }
    bytes.set(value, length)
    length += value.length
  }
}

/** A client that disconnects or breaks the framing within a body is a user error, not `internal`. */
function incomplete(error: unknown): never {
  throw error instanceof Refusal ? error : new Refusal('json_malformed')
}

/** The JSON value of a body that is already read. Throws `content_type_unsupported`, `json_malformed`, `key_duplicate`. */
export function parseBody(request: Request, bytes: Uint8Array): unknown {
  if (!isJson(request.headers.get('content-type'))) throw new Refusal('content_type_unsupported')
  return parseJson(textOf(bytes))
}

function isJson(content_type: string | null): boolean {
  return (
    content_type !== null && /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(content_type)
  )
}

// Queries.

/** Characters that URLSearchParams may decode; ids, keys and numbers have none and are only split, which is faster. */
const ENCODED = /[^A-Za-z0-9_=&.~-]/

/** Parses the query; all values are text. Throws `key_duplicate`. */
export function readQuery(url: string): Record<string, string> {
  const start = url.indexOf('?')
  if (start === -1) return {}
  const text = url.slice(start + 1)
  const query: Record<string, string> = Object.create(null)
  if (ENCODED.test(text)) {
    for (const [name, value] of new URLSearchParams(text)) put(query, name, value)
    return query
  }
  for (const pair of text.split('&')) {
    const end = pair.indexOf('=')
    if (end !== -1) put(query, pair.slice(0, end), pair.slice(end + 1))
    else if (pair !== '') put(query, pair, '')
  }
  return query
}

function put(query: Record<string, string>, name: string, value: string): void {
  if (name in query) throw new Refusal('key_duplicate')
  query[name] = value
}

// JSON.

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a

/** Decodes UTF-8. Throws `json_malformed` for invalid bytes. */
export function textOf(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes)
  } catch {
    throw new Refusal('json_malformed')
  }
}

/** Throws `json_malformed`, or `key_duplicate` where JSON.parse would silently keep the last of two equal keys. */
export function parseJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Refusal('json_malformed')
  }
  // Each member has one colon outside strings; JSON.parse drops a member whose key repeats.
  if (membersWritten(text) !== membersKept(value)) throw new Refusal('key_duplicate')
  return value
}

function membersWritten(text: string): number {
  let members = 0
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit === COLON) members += 1
    else if (unit === QUOTE) at = endOfString(text, at)
  }
  return members
}

/** Index of the quote that closes the string opened at `at`; the text is valid JSON. */
function endOfString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1
  return backslashes % 2 === 1
}

function membersKept(root: unknown): number {
  let members = 0
  // A stack instead of recursion: the text may nest thousands of levels deep.
  const open: unknown[] = [root]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value !== 'object' || value === null) continue
    const entries = Array.isArray(value) ? value : Object.values(value)
    if (!Array.isArray(value)) members += entries.length
    for (const entry of entries) if (typeof entry === 'object' && entry !== null) open.push(entry)
  }
  return members
}

// Schemas.

/** Position of each code in the order of checks. */
const RANK = new Map(REFUSALS.map((entry, index) => [entry.code, index]))

export type Form<S extends TSchema> = {
  /** The same value, typed. Throws a Refusal that names the `field`, but neither its value nor a name the caller chose. */
  check(value: unknown): Static<S>
  fits(value: unknown): boolean
}

/** Compiled on first use, so that startup does not wait for every schema. `root` names the value itself in `field`. */
export function formOf<S extends TSchema>(schema: S, root = 'body'): Form<S> {
  let compiled: TypeCheck<S> | undefined
  const compile = () => {
    compiled ??= TypeCompiler.Compile(schema)
    return compiled
  }
  return {
    fits: (value) => compile().Check(value),
    check(value) {
      if (!compile().Check(value)) throw refusalFor(schema, value, root)
      return value as Static<S>
    },
  }
}

/** The error whose code comes first in the order of checks. */
function refusalFor(schema: TSchema, value: unknown, root: string): Refusal {
  const branch = branchOf(schema, value)
  let first: { code: RefusalCode; field: string } | undefined
  let seen = 0
  for (const error of TypeCompiler.Compile(branch).Errors(value)) {
    const code = codeOf(error)
    if (first === undefined || RANK.get(code)! < RANK.get(first.code)!) {
      first = { code, field: fieldOf(error, root) }
    }
    seen += 1
    if (seen >= SCHEMA_ERRORS_MAX) break
  }
  return new Refusal(first?.code ?? 'field_invalid', { field: first?.field ?? root })
}

/** For a body that is an object or a list of them: the branch of its kind, so that the refusal names a field. */
function branchOf(schema: TSchema, value: unknown): TSchema {
  const branches = schema['anyOf'] as TSchema[] | undefined
  if (branches === undefined) return schema
  const wanted = Array.isArray(value) ? 'array' : 'object'
  return branches.find((candidate) => candidate['type'] === wanted) ?? schema
}

function codeOf(error: ValueError): RefusalCode {
  const hints = (error.schema as Partial<RefusalHint>)['x-refusal']
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return 'field_missing'
    case ValueErrorType.ObjectAdditionalProperties:
      return 'field_unknown'
    case ValueErrorType.StringFormat:
      return matchesPattern(error) ? (hints?.format ?? 'field_invalid') : 'field_invalid'
    case ValueErrorType.ArrayMinItems:
    case ValueErrorType.ArrayMaxItems:
      return hints?.items ?? 'field_invalid'
    default:
      return 'field_invalid'
  }
}

function matchesPattern(error: ValueError): boolean {
  const pattern = error.schema['pattern'] as string | undefined
  return pattern === undefined || new RegExp(pattern).test(String(error.value))
}

/** `/replacement/continuation_anchors/0` is written `replacement.continuation_anchors[0]`. */
function fieldOf(error: ValueError, root: string): string {
  const steps = error.path.split('/').slice(1)
  // The name of an unknown field is the caller's text: name only the object that contains it.
  if (error.type === ValueErrorType.ObjectAdditionalProperties) steps.pop()
  let field = ''
  for (const step of steps) {
    if (/^[0-9]+$/.test(step)) field += `[${step}]`
    else field += field === '' ? step : `.${step}`
  }
  return field === '' ? root : field
}
