/**
 * Stands before the venue while an authority looks for the answer of a TLS-ALPN-01 challenge (RFC 8737): connections that
 * offer `acme-tls/1` see the challenge's certificate, all others reach the venue as they came, still encrypted.
 */
import { type AddressInfo, createServer, type Server, type Socket, connect as tcpConnect } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { HELLO_MS } from '../limits'
import { protocolsOffered } from './client_hello'

const ACME_PROTOCOL = 'acme-tls/1'

export type ChallengeAnswer = { cert_pem: string; key_pem: string }
type Front = {
  /** Takes no further connections; resolves when those taken are on their way, which then live as long as they like. */
  close(): Promise<void>
}

/** Shares `port` with the listener it stands in for. */
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
  // The handshake is all there is to see.
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

/** Resolves when the connection has found its way or its end. */
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
      // From here on an end is passed on.
      client.off('end', end)
      client.pause()
      clearTimeout(timer)
      // What is no TLS is the venue's to refuse.
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
  // Only an answer shows that the listener took the connection; one it left waiting would end with it.
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
