/** Reads bodies, queries and JSON of requests and frames: bounded and strict; schemas parse their values afterwards. */

import { BODY_BYTES_MAX } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'

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
