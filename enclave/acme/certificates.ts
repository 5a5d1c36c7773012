/** The certificates of ACME: request (PKCS #10), challenge (RFC 8737), and the check of an issued one. */

import {
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from 'node:crypto'
import { equalBytes, utf8 } from '../../protocol/bytes'
import { derOfPem, pemOfDer } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import type { TlsMaterial } from '../contract'
import * as der from '../der'
import { CHAIN_CERTIFICATES_MAX } from '../limits'
import * as x509 from '../x509'
import { spkiOf } from '../x509'
import { AcmeFailure } from './signed_requests'

// The certificate signing request (PKCS #10, RFC 2986) of a P-256 key for DNS names.

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

// The certificate that answers a TLS-ALPN-01 challenge (RFC 8737): it proves control of a name and serves nothing else.

const ACME_IDENTIFIER = '1.3.6.1.5.5.7.1.31'
const DAY_MS = 86_400_000

type ChallengeCertificate = { cert_pem: string; key_pem: string }

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

// What an authority issued is used only when it is what was asked for: our key, all our names, valid now.

export type IssuedCertificate = TlsMaterial & { not_before_ms: number; account_url: string }
/** As it comes and as it is kept. */
type CertificateText = Pick<IssuedCertificate, 'cert_pem' | 'key_pem' | 'account_url'>

/** @throws AcmeFailure `certificate` with `shape`, `key`, `names` or `time`. */
export function issuedCertificate(
  { cert_pem, key_pem, account_url }: CertificateText,
  names: readonly string[],
  now_ms: number,
): IssuedCertificate {
  const chain = derOfPem(cert_pem, 'CERTIFICATE')
  if (chain === undefined || chain.length === 0 || chain.length > CHAIN_CERTIFICATES_MAX)
    throw new AcmeFailure('certificate', 'shape')
  const leaf = parsed(chain[0]!)
  const spki = spkiOf(createPrivateKey(key_pem))
  if (!equalBytes(spkiOf(leaf.publicKey), spki)) throw new AcmeFailure('certificate', 'key')
  const held = new Set((leaf.subjectAltName ?? '').split(', '))
  if (!names.every((name) => held.has(`DNS:${name}`))) throw new AcmeFailure('certificate', 'names')
  const [not_before_ms, not_after_ms] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)]
  // Also refuses dates that cannot be read.
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
