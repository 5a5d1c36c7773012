/** Issues version 2 revocation lists (RFC 5280 section 5). */
import type { KeyObject } from 'node:crypto'
import * as x509 from '../x509/certificate'
import * as der from '../x509/der'

export type RevocationListRequest = {
  issuer: x509.Name
  issuer_key: KeyObject
  this_update_ms: number
  next_update_ms: number
  revoked_serials: Uint8Array[]
}

/** DER of the signed list. */
export function issueRevocationList(request: RevocationListRequest): Uint8Array {
  const { issuer, issuer_key, this_update_ms, next_update_ms, revoked_serials } = request
  const entries = revoked_serials.map((serial) => der.sequence(der.integer(serial), der.time(this_update_ms)))
  const to_be_signed = der.sequence(
    der.smallInteger(1),
    x509.ECDSA_SHA256,
    x509.encodeName(issuer),
    der.time(this_update_ms),
    der.time(next_update_ms),
    // RFC 5280 section 5.1.2.6: the list of entries is absent, not empty.
    ...(entries.length === 0 ? [] : [der.sequence(...entries)]),
    der.explicit(
      0,
      der.sequence(
        x509.extension('2.5.29.20', false, der.smallInteger(1)),
        x509.authorityKeyIdentifier(issuer_key),
      ),
    ),
  )
  return x509.signedSequence(to_be_signed, issuer_key)
}
