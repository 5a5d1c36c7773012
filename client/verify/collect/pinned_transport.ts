/** TLS of Bun and Node: reads the server's certificate, then talks to that one key and no other. */

import { connect, type DetailedPeerCertificate } from 'node:tls'
import { toHex } from '../../../protocol/bytes'
import { pemOfDer } from '../../../protocol/pem'
import { sha256 } from '../../../protocol/sha256'
import type { Transport } from '../../api/venue_client'
import { spkiOfCertificate } from '../x509/certificate'

// Opens TLS to see the server's certificate; sends nothing else. Bun and Node.

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

// `fetch` and WebSocket that talk to one TLS key and to no other. Bun.

/**
 * A self-signed leaf is the only authority of its connections: exactly this certificate is believed, and connections
 * stay open between requests. Under a public certificate the platform's authorities decide first and each new connection
 * is held to the key besides; Bun then opens one connection per request.
 */
export function pinnedTransport(url: URL, peer: Peer): Transport {
  const pin = peer.self_signed ? { ca: peer.leaf_pem } : { checkServerIdentity: holdTo(peer.spki_sha256) }
  // Said aloud: the environment's NODE_TLS_REJECT_UNAUTHORIZED=0 would otherwise switch both off.
  const tls = { ...pin, rejectUnauthorized: true }
  return {
    base_url: url.origin,
    fetch: (path, init) => fetch(within(url, path), { ...init, redirect: 'error', tls }),
    webSocket(path) {
      const target = within(url, path)
      target.protocol = 'wss:'
      return new TlsWebSocket(target, { tls })
    },
  }
}

/** The DOM's type of the constructor knows no TLS options; Bun's socket honours them. */
const TlsWebSocket = WebSocket as unknown as new (url: URL, options: { tls: object }) => WebSocket

function holdTo(spki_sha256: string) {
  return (_host: string, certificate: { raw: Uint8Array }): Error | undefined => {
    const key = toHex(sha256(spkiOfCertificate(new Uint8Array(certificate.raw))))
    return key === spki_sha256
      ? undefined
      : new Error('the server holds another TLS key than the attested one')
  }
}

/** A path never leads to another origin. */
function within(url: URL, path: string): URL {
  if (!path.startsWith('/') || path.startsWith('//')) throw new RangeError('expected a path')
  return new URL(url.origin + path)
}
