/** Check 5.3: the TLS key in the binding is the one this connection was opened with. */
import { toHex } from '../../../protocol/bytes'
import { requireThat } from '../refused'
import { established, type RunCheck, Skipped } from './verification_case'

export const checkTlsKey: RunCheck = (verification) => {
  const { spki_sha256 } = verification.bundle
  const bound = toHex(established(verification, 'binding').spki_sha256)
  if (spki_sha256 === null) throw new Skipped('this platform does not show a connection its TLS key')
  requireThat(spki_sha256 === bound, 'the connection ends at another TLS key than the attested one')
  return { spki_sha256 }
}
