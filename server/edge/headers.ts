/** Headers of every answer: the request id, and what keeps browsers and caches from misusing an answer. */

const CALLERS_ID = /^[A-Za-z0-9-]{16,64}$/

/** The caller's `x-request-id` if it is 16 to 64 of `[A-Za-z0-9-]`, else a fresh one. */
export function requestId(request: Request): string {
  const given = request.headers.get('x-request-id')
  return given !== null && CALLERS_ID.test(given) ? given : crypto.randomUUID()
}

/** Elysia looks for the path from here on in the URL, whatever the scheme; a shorter host would shift the path (elysia#748). */
const PATH_AT_LEAST = 'https://'.length + 3

/** Two Host headers arrive joined by a comma: which counts would be a guess. A host too short to route is not ours. */
export function isHostUsable(request: Request): boolean {
  const { url } = request
  if (url.indexOf('/', url.indexOf('//') + 2) < PATH_AT_LEAST) return false
  return request.headers.get('host')?.includes(',') !== true
}

export type HeaderMap = Record<string, string>

export function commonHeaders(request_id: string): HeaderMap {
  return {
    'x-request-id': request_id,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  }
}

/** What the reference page may load: our own style, and the empty icon that keeps browsers from requesting one. */
export const REFERENCE_POLICY =
  "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
