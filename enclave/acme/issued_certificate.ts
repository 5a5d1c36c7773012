/** What an authority issued is used only when it is what was asked for: our key, all our names, valid now. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { equalBytes } from '../../protocol/bytes'
import { derOfPem } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import type { TlsMaterial } from '../contract'
import { spkiOf } from '../x509/certificate'
import { AcmeFailure } from './acme_failure'

const CHAIN_MAX = 8

export type IssuedCertificate = TlsMaterial & { not_before_ms: number; account_url: string }
/** As it comes and as it is kept. */
export type CertificateText = Pick<IssuedCertificate, 'cert_pem' | 'key_pem' | 'account_url'>

/** @throws AcmeFailure `certificate` with `shape`, `key`, `names` or `time`. */
export function issuedCertificate(
  { cert_pem, key_pem, account_url }: CertificateText,
  names: readonly string[],
  now_ms: number,
): IssuedCertificate {
  const chain = derOfPem(cert_pem, 'CERTIFICATE')
  if (chain === undefined || chain.length === 0 || chain.length > CHAIN_MAX)
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
