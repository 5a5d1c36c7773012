/**
 * Reads a request body, its bytes and then what they say: at most 16,384 bytes (413), declared as JSON (415), well formed
 * and free of repeated keys (400).
 */
import { Refusal } from '../protocol/refusals'
import { parseJson, textOf } from './_json'

export const BODY_BYTES_MAX = 16_384

/** What bytes already read say. Throws `content_type_unsupported`, `json_malformed`, `key_duplicate`. */
export function parseBody(request: Request, bytes: Uint8Array): unknown {
  if (!isJson(request.headers.get('content-type'))) throw new Refusal('content_type_unsupported')
  return parseJson(textOf(bytes))
}

/** The bytes of a body; empty without one. Throws `body_too_large`, and `json_malformed` for a body that never became whole. */
export function readBounded(request: Request): Promise<Uint8Array> {
  const declared = request.headers.get('content-length')
  if (declared === null) return readUndeclared(request).catch(notWhole)
  // The server's parser holds a body to its declared length, so nothing longer can follow.
  if (Number(declared) > BODY_BYTES_MAX) return Promise.reject(new Refusal('body_too_large'))
  return request.bytes().catch(notWhole)
}

/** A caller that leaves or breaks its framing in the middle of a body is no fault of the venue. */
function notWhole(error: unknown): never {
  throw error instanceof Refusal ? error : new Refusal('json_malformed')
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

function isJson(content_type: string | null): boolean {
  return (
    content_type !== null && /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(content_type)
  )
}
