/** Makes the enclave's keys: Ed25519 signing keys, and TLS keys with a self-signed certificate. */

import { generateKeyPairSync } from 'node:crypto'
import { pemOfDer } from '../protocol/pem'
import { sha256 } from '../protocol/sha256'
import type { TlsMaterial } from './contract'
import { CLOCK_TOLERANCE_MS, SELF_SIGNED_LIFE_MS } from './limits'
import * as x509 from './x509'

/**
 * A fresh P-256 key with a self-signed certificate for `localhost`, `127.0.0.1` and `names` (DNS names or IPv4
 * addresses), valid 90 days. Never written to disk. Clients trust it because attestation binds its key.
 * @throws RangeError for a name that is neither.
 */
export function generateTls(names: readonly string[], now_ms: number): TlsMaterial {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = { common_name: names[0] ?? 'localhost', organization: 'Tacit' }
  const not_after_ms = now_ms + SELF_SIGNED_LIFE_MS
  const certificate = x509.issueCertificate({
    subject: name,
    issuer: name,
    subject_key: privateKey,
    issuer_key: privateKey,
    serial: x509.randomSerial(),
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
