/** Makes the certificate request (PKCS #10) and the challenge certificate (RFC 8737) of ACME, and checks issued certificates. */

import { createPrivateKey, generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto'
import { equalBytes, utf8 } from '../../protocol/bytes'
import { derOfPem, pemOfDer } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import type { TlsMaterial } from '../contract'
import * as der from '../der'
import { CHAIN_CERTIFICATES_MAX } from '../limits'
import * as x509 from '../x509'
import { AcmeFailure } from './signed_requests'

const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'

/** DER of a certificate signing request (RFC 2986) for a P-256 key. The names are in the extension; the subject is empty. */
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

const ACME_IDENTIFIER = '1.3.6.1.5.5.7.1.31'
const DAY_MS = 86_400_000

type ChallengeCertificate = { cert_pem: string; key_pem: string }

/** The certificate that answers a TLS-ALPN-01 challenge: it only proves control of the name. */
export function challengeCertificate(
  name: string,
  key_authorization: string,
  now_ms: number,
): ChallengeCertificate {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = { common_name: name.slice(0, 64), organization: 'ACME challenge' }
  const certificate = x509.issueCertificate({
    subject,
    issuer: subject,
    subject_key: privateKey,
    issuer_key: privateKey,
    serial: x509.randomSerial(),
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

export type IssuedCertificate = TlsMaterial & { not_before_ms: number; account_url: string }
/** As issued and as stored. */
type CertificateText = Pick<IssuedCertificate, 'cert_pem' | 'key_pem' | 'account_url'>

/**
 * Accepts a certificate only for our key and all our names, valid now.
 * @throws AcmeFailure `certificate` with `shape`, `key`, `names` or `time`.
 */
export function issuedCertificate(
  { cert_pem, key_pem, account_url }: CertificateText,
  names: readonly string[],
  now_ms: number,
): IssuedCertificate {
  const chain = derOfPem(cert_pem, 'CERTIFICATE')
  if (chain === undefined || chain.length === 0 || chain.length > CHAIN_CERTIFICATES_MAX)
    throw new AcmeFailure('certificate', 'shape')
  const leaf = parsed(chain[0]!)
  const spki = x509.spkiOf(createPrivateKey(key_pem))
  if (!equalBytes(x509.spkiOf(leaf.publicKey), spki)) throw new AcmeFailure('certificate', 'key')
  const certified = new Set((leaf.subjectAltName ?? '').split(', '))
  if (!names.every((name) => certified.has(`DNS:${name}`))) throw new AcmeFailure('certificate', 'names')
  const [not_before_ms, not_after_ms] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)]
  // Also rejects dates that do not parse (NaN).
  if (!(not_before_ms < not_after_ms && now_ms < not_after_ms)) throw new AcmeFailure('certificate', 'time')
  return { cert_pem, key_pem, account_url, spki_sha256: sha256(spki), not_before_ms, not_after_ms }
}

function parsed(der: Uint8Array): X509Certificate {
  try {
    return new X509Certificate(der)
  } catch {
    throw new AcmeFailure('certificate', 'shape')
  }
}
