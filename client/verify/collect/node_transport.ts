/** `fetch` and WebSocket of Node that accept one TLS key: its own `fetch` cannot be held to a key. */
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { Readable } from 'node:stream'
import { WebSocket as Socket } from 'ws'
import type { Transport } from '../../api/venue_client'
import { holdTo, type Peer, within } from './pinned_transport'

/** As `pinnedTransport`. Every connection makes a full handshake, so each one shows its key. */
export function nodeTransport(url: URL, { self_signed, leaf_pem, spki_sha256 }: Peer): Transport {
  const pin = { checkServerIdentity: holdTo(spki_sha256), rejectUnauthorized: true, maxCachedSessions: 0 }
  const trusted = self_signed ? { ca: leaf_pem } : {}
  const agent = new Agent({ ...pin, ...trusted, keepAlive: true, minVersion: 'TLSv1.3' })
  return {
    base_url: url.origin,
    fetch: (path, init) => fetchOver(agent, within(url, path), init),
    webSocket(path) {
      const target = within(url, path)
      target.protocol = 'wss:'
      return new Socket(target, { agent, followRedirects: false }) as unknown as WebSocket
    },
  }
}

function fetchOver(agent: Agent, url: URL, init: RequestInit = {}): Promise<Response> {
  const headers = Object.fromEntries(new Headers(init.headers))
  // Node states no length of a DELETE's body by itself, and the venue would wait for it.
  if (typeof init.body === 'string') headers['content-length'] = String(Buffer.byteLength(init.body))
  const signal = init.signal === undefined || init.signal === null ? {} : { signal: init.signal }
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, method: init.method ?? 'GET', headers, ...signal }, (answer) => {
      const status = answer.statusCode ?? 0
      if (status >= 300 && status < 400) {
        answer.destroy()
        reject(new TypeError('the venue redirects, which is not followed'))
      } else resolve(responseOf(answer, status))
    })
    // As `fetch` reports a lost connection.
    sent.once('error', (cause) => reject(new TypeError(`fetch failed: ${cause.message}`, { cause })))
    sent.end(init.body)
  })
}

function responseOf(answer: IncomingMessage, status: number): Response {
  const headers = new Headers()
  for (const [name, value] of Object.entries(answer.headers))
    if (value !== undefined) headers.set(name, [value].flat().join(', '))
  const body = status === 204 ? null : (Readable.toWeb(answer) as unknown as ReadableStream)
  return new Response(body, { status, headers })
}
