/** Headers of every answer: the request id, and what keeps browsers and caches from misusing an answer. */

const CALLERS_ID = /^[A-Za-z0-9-]{16,64}$/

/** The caller's `x-request-id` if it is 16 to 64 of `[A-Za-z0-9-]`, else a fresh one. */
export function requestId(request: Request): string {
  const given = request.headers.get('x-request-id')
  return given !== null && CALLERS_ID.test(given) ? given : crypto.randomUUID()
}

/** Two Host headers arrive joined by a comma; which of them counts would be a guess. */
export function hasOneHost(request: Request): boolean {
  const host = request.headers.get('host')
  return host === null || !host.includes(',')
}

export type HeaderMap = Record<string, string>

export function commonHeaders(request_id: string): HeaderMap {
  return {
    'x-request-id': request_id,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  }
}
