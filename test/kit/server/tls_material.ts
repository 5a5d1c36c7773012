/** Certificates for tests of the listener, made by the code that makes the venue's. */
import { createHash, X509Certificate } from 'node:crypto'
import type { TlsMaterial } from '../../../enclave/contract'
import { generateTls } from '../../../enclave/x509'

export function tlsMaterial(): TlsMaterial {
  return generateTls([], Date.now())
}

/** SHA-256 of a certificate's SubjectPublicKeyInfo, hex. */
export function spkiOf(certificate: string | Uint8Array): string {
  const { publicKey } = new X509Certificate(certificate)
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
}
