/** X.509 v2 certificate revocation lists (RFC 5280 section 5.1). */
import { equalBytes } from '../../../protocol/bytes'
import { requireEcdsaSha256 } from './certificate'
import { context, type DerReader, MalformedDer, openDer, TAG } from './der'
import { readBitString, readSerial, readSmallInteger, readTime } from './der_values'
import { readExtensions, refuseUnknownCritical } from './extensions'
import { rawSignature } from './p256'

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
  const outer = openDer(der, TAG.sequence)
  const signed = outer.whole(TAG.sequence)
  const outer_algorithm = outer.whole(TAG.sequence)
  const signature = rawSignature(readBitString(outer))
  outer.end()

  const body = openDer(signed, TAG.sequence)
  if (readSmallInteger(body) !== 1) throw new MalformedDer('revocation list version is not 2')
  const algorithm = body.whole(TAG.sequence)
  if (!equalBytes(algorithm, outer_algorithm)) throw new MalformedDer('signature algorithms differ')
  requireEcdsaSha256(algorithm)
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
