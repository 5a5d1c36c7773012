/** Who calls: the bearer token of a request, judged before anything else of it is read. */
import type { Session, Venue } from '../engine/venue'
import { Refusal } from '../protocol/refusals'

const TOKEN = /^[A-Za-z0-9._~+/=-]{1,512}$/

/** The session behind the token. Throws `token_missing`, `token_invalid`, `token_expired` or `token_revoked`. */
export function authenticate(venue: Venue, token: string | undefined): Session {
  if (token === undefined) throw new Refusal('token_missing')
  if (!TOKEN.test(token)) throw new Refusal('token_invalid')
  return venue.authenticate(token)
}

/** The token of `Authorization: Bearer <token>` (RFC 6750), if any. Throws `token_invalid` for other schemes. */
export function bearerToken(request: Request): string | undefined {
  const header = request.headers.get('authorization')
  if (header === null) return undefined
  const match = /^Bearer +([^\s,]+)$/i.exec(header)
  if (match === null) throw new Refusal('token_invalid')
  return match[1]!
}

/** The token of a socket: the header, or `?token=` for clients that cannot set headers. Several must agree. */
export function socketToken(request: Request): string | undefined {
  const start = request.url.indexOf('?')
  const given = start === -1 ? [] : new URLSearchParams(request.url.slice(start + 1)).getAll('token')
  const in_header = bearerToken(request)
  if (in_header !== undefined) given.push(in_header)
  if (given.some((token) => token !== given[0])) throw new Refusal('token_invalid')
  return given[0]
}
