/** X.509 v2 certificate revocation lists (RFC 5280 section 5.1). */
import { context, type DerReader, MalformedDer, TAG } from './der'
import { readSerial, readSmallInteger, readTime } from './der_values'
import { readExtensions, refuseUnknownCritical } from './extensions'
import { openSigned } from './open_signed'

export type RevocationList = {
  signed: Uint8Array
  /** r ‖ s, 64 bytes. */
  signature: Uint8Array
  /** DER name. */
  issuer: Uint8Array
  this_update_ms: number
  next_update_ms: number
  /** Serial numbers in hex. */
  revoked: ReadonlySet<string>
}

/** @throws MalformedDer; also for a partial list, which a critical extension marks. */
export function readRevocationList(der: Uint8Array): RevocationList {
  const { signed, signature, body, readAlgorithm } = openSigned(der)
  if (readSmallInteger(body) !== 1) throw new MalformedDer('revocation list version is not 2')
  readAlgorithm()
  const issuer = body.whole(TAG.sequence)
  const [this_update_ms, next_update_ms] = [readTime(body), readTime(body)]
  const revoked = new Set<string>()
  const entries = body.optional(TAG.sequence)
  while (entries !== undefined && !entries.done) revoked.add(readEntry(entries.open(TAG.sequence)))
  const wrapper = body.open(context(0))
  refuseUnknownCritical(readExtensions(wrapper.open(TAG.sequence)), [])
  wrapper.end()
  body.end()
  return { signed, signature, issuer, this_update_ms, next_update_ms, revoked }
}

/** Serial number of one entry; the reason does not matter, a listed certificate is refused. */
function readEntry(entry: DerReader): string {
  const serial = readSerial(entry)
  readTime(entry)
  const extensions = entry.optional(TAG.sequence)
  if (extensions !== undefined) refuseUnknownCritical(readExtensions(extensions), [])
  entry.end()
  return serial
}
