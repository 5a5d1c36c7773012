/** Opens TLS to see the server's certificate; sends nothing else. Bun and Node. */
import { connect, type DetailedPeerCertificate } from 'node:tls'
import { toHex } from '../../../protocol/bytes'
import { pemOfDer } from '../../../protocol/pem'
import { sha256 } from '../../../protocol/sha256'
import { spkiOfCertificate } from '../x509/certificate'

export type Peer = {
  /** SHA-256 of the leaf's SubjectPublicKeyInfo, hex. */
  spki_sha256: string
  leaf_pem: string
  /** The leaf signs itself: no authority stands behind it, only the pin. */
  self_signed: boolean
}

/** @throws when the server does not complete a TLS 1.3 handshake in time. */
export function readPeer(url: URL, timeout_ms: number): Promise<Peer> {
  const port = url.port === '' ? 443 : Number(url.port)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve, reject) => {
    // The certificate is not believed here: attestation decides, and every later connection is held to this key.
    const socket = connect({
      host,
      port,
      servername: isAddress(host) ? '' : host,
      minVersion: 'TLSv1.3',
      rejectUnauthorized: false,
    })
    socket.setTimeout(timeout_ms, () => socket.destroy(new Error('the TLS handshake took too long')))
    socket.once('error', reject)
    socket.once('secureConnect', () => {
      const { raw, issuer, subject } = socket.getPeerCertificate(true) as DetailedPeerCertificate
      socket.destroy()
      const der = new Uint8Array(raw)
      resolve({
        spki_sha256: toHex(sha256(spkiOfCertificate(der))),
        leaf_pem: pemOfDer(der, 'CERTIFICATE'),
        self_signed: JSON.stringify(issuer) === JSON.stringify(subject),
      })
    })
  })
}

const isAddress = (host: string): boolean => /^[\d.]+$/.test(host) || host.includes(':')
