/** Publishes to bare topics over TLS: the cost of a delivery without accounts, seqs or slow readers. */
import type { Server } from 'bun'
import { generateTls } from '../../enclave/x509'

export type RawFacts = { port: number; certificate: string }
export type RawWave = { topics: string[]; per_wave: number; bytes: number }

/** JSON text of the given size. */
export const filler = (bytes: number) => JSON.stringify({ filler: 'x'.repeat(Math.max(0, bytes - 13)) })

export class RawTopics {
  readonly facts: RawFacts
  private readonly server: Server<{ topic: string }>

  /** Each socket joins the topic of its token. */
  constructor() {
    const { cert_pem: certificate, key_pem: key } = generateTls([], Date.now())
    this.server = Bun.serve<{ topic: string }>({
      hostname: '127.0.0.1',
      port: 0,
      tls: { cert: certificate, key },
      fetch(request, own) {
        const topic = new URL(request.url).searchParams.get('token')!
        return own.upgrade(request, { data: { topic } }) ? undefined : new Response(null, { status: 426 })
      },
      websocket: {
        perMessageDeflate: false,
        open: (socket) => void socket.subscribe(socket.data.topic),
        message: () => {},
      },
    })
    this.facts = { port: this.server.port!, certificate }
  }

  /** Sends all messages in one turn of the event loop, like a group commit. */
  publish({ topics, per_wave, bytes }: RawWave): void {
    const text = filler(bytes)
    for (const topic of topics) for (let at = 0; at < per_wave; at++) this.server.publish(topic, text)
  }
}
