/** Reads bodies, queries and JSON of requests and frames: bounded and strict; schemas parse their values afterwards. */

import { BODY_BYTES_MAX } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'
import { DuplicateKey, strictJson } from '../../protocol/strict_json'

// Bodies.

/** The bytes of a body; empty without one. Throws `body_too_large`, and `json_malformed` for an incomplete body. */
export function readBounded(request: Request, bytes_max = BODY_BYTES_MAX): Promise<Uint8Array> {
  const declared = request.headers.get('content-length')
  if (declared === null) return readUndeclared(request, bytes_max).catch(incomplete)
  // The runtime reads at most the declared length.
  if (Number(declared) > bytes_max) return Promise.reject(new Refusal('body_too_large'))
  return request.bytes().catch(incomplete)
}

async function readUndeclared({ body }: Request, bytes_max: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array(0)
  const bytes = new Uint8Array(bytes_max)
  let length = 0
  const reader = body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return bytes.subarray(0, length)
    if (length + value.length > bytes_max) {
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
  // Not Object.create(null), whose result is slower to fill and to read.
  const query = { __proto__: null } as unknown as Record<string, string>
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

/** Decodes UTF-8. Throws `json_malformed` for invalid bytes. */
export function textOf(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes)
  } catch {
    throw new Refusal('json_malformed')
  }
}

/** Throws `json_malformed` or `key_duplicate`. */
export function parseJson(text: string): unknown {
  try {
    return strictJson(text)
  } catch (error) {
    throw new Refusal(error instanceof DuplicateKey ? 'key_duplicate' : 'json_malformed')
  }
}
