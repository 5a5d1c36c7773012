/** The certificate that answers a TLS-ALPN-01 challenge (RFC 8737): it proves control of a name and serves nothing else. */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { utf8 } from '../../protocol/bytes'
import { pemOfDer } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import * as x509 from '../x509/certificate'
import * as der from '../x509/der'

const ACME_IDENTIFIER = '1.3.6.1.5.5.7.1.31'
const DAY_MS = 86_400_000

export type ChallengeCertificate = { cert_pem: string; key_pem: string }

export function challengeCertificate(
  name: string,
  key_authorization: string,
  now_ms: number,
): ChallengeCertificate {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = { common_name: name.slice(0, 64), organization: 'ACME challenge' }
  const serial = new Uint8Array(randomBytes(16))
  serial[0] = (serial[0]! & 0x7f) | 0x40
  const certificate = x509.issueCertificate({
    subject,
    issuer: subject,
    subject_key: privateKey,
    issuer_key: privateKey,
    serial,
    not_before_ms: now_ms - DAY_MS,
    not_after_ms: now_ms + DAY_MS,
    extensions: [
      x509.basicConstraints(false),
      x509.keyUsage(0),
      x509.subjectAlternativeNames([name]),
      x509.extension(ACME_IDENTIFIER, true, der.octets(sha256(utf8(key_authorization)))),
    ],
  })
  return {
    cert_pem: pemOfDer(certificate, 'CERTIFICATE'),
    key_pem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}
