/** The certificate signing request (PKCS #10, RFC 2986) of a P-256 key for DNS names. */
import type { KeyObject } from 'node:crypto'
import * as x509 from '../x509/certificate'
import * as der from '../x509/der'

const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'

/** DER of the request, signed with the key itself. The subject is empty: the names stand in the extension. */
export function certificateRequest(names: readonly string[], key: KeyObject): Uint8Array {
  const extensions = der.sequence(x509.subjectAlternativeNames(names))
  const info = der.sequence(
    der.smallInteger(0),
    der.sequence(),
    x509.spkiOf(key),
    der.explicit(0, der.sequence(der.oid(EXTENSION_REQUEST), der.set(extensions))),
  )
  return x509.signedSequence(info, key)
}
