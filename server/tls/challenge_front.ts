/**
 * Demultiplexes TLS during a TLS-ALPN-01 challenge (RFC 8737): connections that offer only `acme-tls/1` get the challenge's
 * certificate; all others are forwarded to the venue, still encrypted.
 */

import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { HELLO_MS } from '../limits'
import { protocolsOffered } from './client_hello'

const ACME_PROTOCOL = 'acme-tls/1'

export type ChallengeAnswer = { cert_pem: string; key_pem: string }
type Front = {
  /** Stops accepting; resolves when every accepted connection is forwarded or closed. Forwarded ones stay open. */
  close(): Promise<void>
}

/** Shares the port with the listener that it replaces. */
export async function openFront(
  at: { hostname: string; port: number },
  venue_port: number,
  answer: ChallengeAnswer,
): Promise<Front> {
  const challenge = createTlsServer({
    cert: answer.cert_pem,
    key: answer.key_pem,
    ALPNProtocols: [ACME_PROTOCOL],
  })
  // The authority needs only the handshake.
  challenge.on('secureConnection', (socket) => socket.end())
  challenge.on('tlsClientError', () => undefined)
  await listening(challenge, { host: '127.0.0.1', port: 0 })
  const challenge_port = (challenge.address() as AddressInfo).port

  const undecided = new Map<Socket, Promise<void>>()
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const decided = decide(client, (is_challenge) => (is_challenge ? challenge_port : venue_port))
    undecided.set(client, decided)
    void decided.then(() => undecided.delete(client))
  })
  await listening(server, { host: at.hostname, port: at.port, reusePort: true })
  return {
    async close() {
      server.close()
      await Promise.all(undecided.values())
      challenge.close()
    },
  }
}

function listening(server: Server, options: object): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => resolve())
  })
}

/** Reads the ClientHello and forwards the connection; resolves when it is forwarded or closed. */
function decide(client: Socket, portFor: (is_challenge: boolean) => number): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      client.destroy()
      resolve()
    }
    const timer = setTimeout(end, HELLO_MS)
    let seen: Buffer = Buffer.alloc(0)
    const look = (part: Buffer) => {
      seen = Buffer.concat([seen, part])
      const offered = protocolsOffered(seen)
      if (offered === 'more') return
      client.off('data', look)
      // From here on an end is forwarded.
      client.off('end', end)
      client.pause()
      clearTimeout(timer)
      // The venue rejects connections that are not TLS.
      const is_challenge = offered?.length === 1 && offered[0] === ACME_PROTOCOL
      join(client, portFor(is_challenge), seen, resolve)
    }
    client.on('data', look)
    client.on('end', end)
    client.on('error', end)
    client.on('close', end)
  })
}

function join(client: Socket, port: number, first: Buffer, joined: () => void): void {
  const inner = tcpConnect({ host: '127.0.0.1', port, allowHalfOpen: true }, () => {
    inner.write(first)
    inner.pipe(client)
    client.pipe(inner)
  })
  // Only an answer proves that the listener accepted: a connection in its backlog would close with it.
  inner.once('data', joined)
  client.setNoDelay(true)
  inner.setNoDelay(true)
  inner.on('error', () => client.destroy())
  inner.on('close', () => {
    client.destroySoon()
    joined()
  })
  client.on('close', () => inner.destroy())
}
