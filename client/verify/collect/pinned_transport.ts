/** `fetch` and WebSocket that talk to one TLS key and to no other. Bun. */
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import type { Transport } from '../../api/transport'
import { spkiOfCertificate } from '../x509/certificate'
import type { Peer } from './read_peer'

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
