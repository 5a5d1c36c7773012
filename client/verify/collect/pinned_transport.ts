/** Reads a server's certificate, then opens connections to its TLS key alone. */

import { type ConnectionOptions, connect, type DetailedPeerCertificate } from 'node:tls'
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { pemOfDer, spkiOfCertificate } from '../../../protocol/x509/certificate'
import type { Transport } from '../../api/venue_client'

export type Peer = {
  /** SHA-256 of the leaf's SubjectPublicKeyInfo, hex. */
  spki_sha256: string
  leaf_pem: string
  /** The leaf signs itself: only the pin authenticates it. */
  self_signed: boolean
}

/** Opens TLS and sends nothing. Bun and Node. @throws when no TLS 1.3 handshake completes in time */
export function readPeer(url: URL, timeout_ms: number): Promise<Peer> {
  const port = url.port === '' ? 443 : Number(url.port)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve, reject) => {
    // Attestation judges the certificate later; every later connection is pinned to its key.
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

/**
 * `fetch` and WebSocket that accept one TLS key. Bun's own take TLS options; elsewhere those of undici do, which Node's own
 * are made of.
 *
 * A self-signed leaf becomes the only trusted authority, and connections stay open between requests. For a public
 * certificate the platform's authorities decide first and the key of each new connection is compared; Bun then opens one
 * connection per request.
 */
export async function pinnedTransport(url: URL, peer: Peer): Promise<Transport> {
  const pin = peer.self_signed ? { ca: peer.leaf_pem } : { checkServerIdentity: holdTo(peer.spki_sha256) }
  // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment would switch both off.
  const open = await openerOf({ ...pin, rejectUnauthorized: true })
  return {
    base_url: url.origin,
    fetch: (path, init) => open.fetch(within(url, path), { ...init, redirect: 'error' }),
    webSocket(path, headers = {}) {
      const target = within(url, path)
      target.protocol = 'wss:'
      return open.webSocket(target, headers)
    },
  }
}

type Opener = {
  fetch(url: URL, init: RequestInit): Promise<Response>
  webSocket(url: URL, headers: Record<string, string>): WebSocket
}

type TlsOptions =
  | Pick<Required<ConnectionOptions>, 'ca' | 'rejectUnauthorized'>
  | Pick<Required<ConnectionOptions>, 'checkServerIdentity' | 'rejectUnauthorized'>

async function openerOf(tls: TlsOptions): Promise<Opener> {
  if (typeof Bun !== 'undefined')
    return {
      fetch: (url, init) => fetch(url, { ...init, tls } as RequestInit),
      // The DOM's type of the constructor has no such options.
      webSocket: (url, headers) => new WebSocket(url, { tls, headers } as unknown as string[]),
    }
  const undici = await import('undici')
  const dispatcher = new undici.Agent({ connect: tls })
  // Equal in form, but distinct types.
  type Init = Parameters<typeof undici.fetch>[1]
  return {
    fetch: async (url, init) =>
      (await undici.fetch(url, { ...(init as Init), dispatcher })) as unknown as Response,
    webSocket: (url, headers) => new undici.WebSocket(url, { dispatcher, headers }) as unknown as WebSocket,
  }
}

function holdTo(spki_sha256: string) {
  return (_host: string, certificate: { raw: Uint8Array }): Error | undefined => {
    const key = toHex(sha256(spkiOfCertificate(new Uint8Array(certificate.raw))))
    return key === spki_sha256 ? undefined : new Error('the server has another TLS key than the attested one')
  }
}

/** @throws RangeError for a path that leads to another origin */
function within(url: URL, path: string): URL {
  if (!path.startsWith('/') || path.startsWith('//')) throw new RangeError('expected a path')
  return new URL(url.origin + path)
}
