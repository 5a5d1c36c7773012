/** The venue's TLS key and self-signed certificate: generated in the process, held in memory, never written out. */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { pemOfDer } from '../protocol/pem'
import { sha256 } from '../protocol/sha256'
import type { TlsMaterial } from './contract'
import * as x509 from './x509/certificate'

const DAY_MS = 86_400_000
/** Clients judge validity by their own clock; a start in the past absorbs clocks that run behind. */
const CLOCK_TOLERANCE_MS = 3_600_000

/**
 * A fresh P-256 key with a self-signed certificate for `localhost`, `127.0.0.1` and `names` (DNS names or IPv4
 * addresses), valid 90 days. A client trusts it because attestation binds its key, not because of a public authority.
 * @throws RangeError for a name that is neither.
 */
export function generateTls(names: readonly string[], now_ms: number): TlsMaterial {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = { common_name: names[0] ?? 'localhost', organization: 'Tacit' }
  // The first byte of a serial number stays below 0x80 and is not zero, so its length is always 16 bytes.
  const serial = new Uint8Array(randomBytes(16))
  serial[0] = (serial[0]! & 0x7f) | 0x40
  const not_after_ms = now_ms + 90 * DAY_MS
  const certificate = x509.issueCertificate({
    subject: name,
    issuer: name,
    subject_key: privateKey,
    issuer_key: privateKey,
    serial,
    not_before_ms: now_ms - CLOCK_TOLERANCE_MS,
    not_after_ms,
    extensions: [
      x509.basicConstraints(false),
      x509.keyUsage(0),
      x509.serverAuthentication(),
      x509.subjectKeyIdentifier(privateKey),
      x509.subjectAlternativeNames([...new Set(['localhost', '127.0.0.1', ...names])]),
    ],
  })
  return {
    cert_pem: pemOfDer(certificate, 'CERTIFICATE'),
    key_pem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    spki_sha256: sha256(x509.spkiOf(privateKey)),
    not_after_ms,
  }
}
