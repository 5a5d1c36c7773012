/** Who may have issued what, at a given time. */
import { equalBytes } from '../../../protocol/bytes'
import { Refused } from '../refused'
import type { Certificate } from './certificate'
import { USAGE } from './extensions'
import { isSignedBy } from './p256'
import type { RevocationList } from './revocation_list'

export function requireCurrent(certificate: Certificate, now_ms: number): void {
  if (now_ms < certificate.not_before_ms) throw new Refused('a certificate is not valid yet')
  if (now_ms > certificate.not_after_ms) throw new Refused('a certificate has expired')
}

/** @param authorities_below how many authorities stand between `issuer` and the leaf, `certificate` included. */
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

/** Issuer, signature and period of a revocation list. */
export async function requireListOf(
  list: RevocationList,
  issuer: Certificate,
  now_ms: number,
): Promise<void> {
  if (!equalBytes(list.issuer, issuer.subject)) throw new Refused('a revocation list has another issuer')
  if (!issuer.mayDo(USAGE.list_sign)) throw new Refused('the issuer may not sign revocation lists')
  requireListCurrent(list, now_ms)
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
