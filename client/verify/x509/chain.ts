/** Verifies chains of certificates and reads their revocation lists (RFC 5280). */
import { equalBytes } from '../../../protocol/bytes'
import {
  type Certificate,
  openSigned,
  readExtensions,
  refuseUnknownCritical,
  USAGE,
} from '../../../protocol/x509/certificate'
import {
  context,
  type DerReader,
  isSignedBy,
  MalformedDer,
  readSerial,
  readSmallInteger,
  readTime,
  TAG,
} from '../../../protocol/x509/der'
import { Refused } from '../transcript'

/** X.509 v2 certificate revocation list (RFC 5280 section 5.1). */
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

/** @throws MalformedDer, also for a partial list, which a critical extension marks */
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

/** Serial number of one entry; every listed certificate is rejected, for any reason of revocation. */
function readEntry(entry: DerReader): string {
  const serial = readSerial(entry)
  readTime(entry)
  const extensions = entry.optional(TAG.sequence)
  if (extensions !== undefined) refuseUnknownCritical(readExtensions(extensions), [])
  entry.end()
  return serial
}

export function requireCurrent(certificate: Certificate, now_ms: number): void {
  if (now_ms < certificate.not_before_ms) throw new Refused('a certificate is not valid yet')
  if (now_ms > certificate.not_after_ms) throw new Refused('a certificate has expired')
}

/** @param authorities_below number of authorities between `issuer` and the leaf, `certificate` included */
export async function requireIssuedBy(
  certificate: Certificate,
  issuer: Certificate,
  authorities_below: number,
): Promise<void> {
  const { ca, path_length } = issuer.basic_constraints
  if (!equalBytes(certificate.issuer, issuer.subject)) throw new Refused('the issuer has another name')
  if (!ca || !issuer.mayDo(USAGE.certificate_sign)) throw new Refused('the issuer is no authority')
  if (path_length !== undefined && authorities_below > path_length)
    throw new Refused('the chain is longer than its authority allows')
  if (!(await isSignedBy(issuer.public_key, certificate.signed, certificate.signature)))
    throw new Refused('a certificate is not signed by its issuer')
}

/** Checks issuer and signature of a revocation list. */
export async function requireListOf(list: RevocationList, issuer: Certificate): Promise<void> {
  if (!equalBytes(list.issuer, issuer.subject)) throw new Refused('a revocation list has another issuer')
  if (!issuer.mayDo(USAGE.list_sign)) throw new Refused('the issuer may not sign revocation lists')
  if (!(await isSignedBy(issuer.public_key, list.signed, list.signature)))
    throw new Refused('a revocation list is not signed by its issuer')
}

export function requireListCurrent(list: RevocationList, now_ms: number): void {
  if (now_ms < list.this_update_ms) throw new Refused('a revocation list is from the future')
  if (now_ms > list.next_update_ms) throw new Refused('a revocation list has expired')
}

export function requireNotRevoked(certificate: Certificate, list: RevocationList): void {
  if (!equalBytes(certificate.issuer, list.issuer))
    throw new Refused('a revocation list of another issuer was given')
  if (list.revoked.has(certificate.serial)) throw new Refused('a certificate is revoked')
}
