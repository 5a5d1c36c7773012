/** Reads a request body: at most 16,384 bytes (413), declared as JSON (415), well formed and free of repeated keys (400). */
import { Refusal } from '../protocol/refusals'
import { parseJson, textOf } from './_json'

export const BODY_BYTES_MAX = 16_384

/** The parsed body. Throws `body_too_large`, `content_type_unsupported`, `json_malformed`, `key_duplicate`, in this order. */
export async function readBody(request: Request): Promise<unknown> {
  return parseBody(request, await readBounded(request))
}

/** What bytes already read say. Throws `content_type_unsupported`, `json_malformed`, `key_duplicate`. */
export function parseBody(request: Request, bytes: Uint8Array): unknown {
  if (!isJson(request.headers.get('content-type'))) throw new Refusal('content_type_unsupported')
  return parseJson(textOf(bytes))
}

/** The bytes of a body; empty without one. Throws `body_too_large`, and `json_malformed` for a body that never became whole. */
export async function readBounded(request: Request): Promise<Uint8Array> {
  try {
    const declared = request.headers.get('content-length')
    if (declared === null) return await readUndeclared(request)
    // The server's parser holds a body to its declared length, so nothing longer can follow.
    if (Number(declared) > BODY_BYTES_MAX) throw new Refusal('body_too_large')
    return await request.bytes()
  } catch (error) {
    // A caller that leaves or breaks its framing in the middle of a body is no fault of the venue.
    throw error instanceof Refusal ? error : new Refusal('json_malformed')
  }
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
