/** Makes the headers of every answer, and rejects hosts that would misroute a request. */

import { Refusal } from '../../protocol/refusals'
import { REQUEST_BYTES_MAX } from '../limits'

export type HeaderMap = Record<string, string>

const GIVEN_ID = /^[A-Za-z0-9-]{16,64}$/

/** The caller's `x-request-id` if it is 16 to 64 of `[A-Za-z0-9-]`, else a new one. */
export function requestId(request: Request): string {
  const given = request.headers.get('x-request-id')
  return given !== null && GIVEN_ID.test(given) ? given : crypto.randomUUID()
}

/** Elysia searches the path from this index of the URL; after a shorter host it would find a wrong one (elysia#748). */
const PATH_INDEX_MIN = 'https://'.length + 3

/**
 * Why the head alone rejects the request, if it does: `field_invalid` for its host, `body_too_large` for a huge body.
 * @param is_known whether its URL passed before
 */
export function refusalOfHead(request: Request, is_known = false): Refusal | undefined {
  if (!(is_known || isRoutable(request.url)) || isHostAmbiguous(request))
    return new Refusal('field_invalid', { field: 'host' })
  return isHuge(request) ? new Refusal('body_too_large') : undefined
}

function isHuge(request: Request): boolean {
  const length = request.headers.get('content-length')
  return length !== null && Number(length) > REQUEST_BYTES_MAX
}

/** False for a host too short to route. */
function isRoutable(url: string): boolean {
  return url.indexOf('/', url.indexOf('//') + 2) >= PATH_INDEX_MIN
}

/** Several Host headers, which the runtime joins by a comma. */
function isHostAmbiguous({ headers }: Request): boolean {
  return headers.get('host')?.includes(',') === true
}

export function commonHeaders(request_id: string): HeaderMap {
  return {
    'x-request-id': request_id,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  }
}

/** Lets the reference page load our style, and the empty icon that keeps browsers from requesting one. */
export const REFERENCE_POLICY =
  "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
