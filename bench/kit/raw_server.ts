/** The floor under the venue's face: bare Bun.serve with TLS in a process of its own, fixed answers, bare topics. */

import type { Server } from 'bun'
import { generateTls } from '../../enclave/keys'
import { answerQuestions } from './child_process'

// Bare topics over TLS: what a delivery costs where nothing is known of accounts, seqs or slow readers.

export type RawFacts = { port: number; certificate: string }
export type RawWave = { topics: string[]; per_wave: number; bytes: number }

/** JSON of so many bytes. */
const filler = (bytes: number) => JSON.stringify({ filler: 'x'.repeat(Math.max(0, bytes - 13)) })

/** A bare server; `fetch` answers what no socket asks for. */
function serveRaw(fetch: (request: Request) => Response | Promise<Response>): RawFacts {
  const { cert_pem: cert, key_pem: key } = generateTls([], Date.now())
  const { port } = Bun.serve({ hostname: '127.0.0.1', port: 0, tls: { cert, key }, fetch })
  return { port: port!, certificate: cert }
}

export class RawTopics {
  readonly facts: RawFacts
  private readonly server: Server<{ topic: string }>

  /** Sockets join the topic of their token. */
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

  /** Of one turn of the loop, as a group commit is. */
  publish({ topics, per_wave, bytes }: RawWave): void {
    const text = filler(bytes)
    for (const topic of topics) for (let at = 0; at < per_wave; at++) this.server.publish(topic, text)
  }
}

// The floor under the venue's face: bare Bun.serve with TLS in a process of its own, fixed answers and bare topics.

let body = ''
let topics: RawTopics | undefined

answerQuestions({
  /** Reads JSON and answers `answer_bytes` of JSON to POST and GET, and looks at nothing else of a request. */
  start(options: { answer_bytes: number }): RawFacts {
    body = filler(options.answer_bytes)
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
    const answer = () => new Response(body, { headers })
    return serveRaw((request) => (request.method === 'POST' ? request.json().then(answer) : answer()))
  },
  answerBytes(bytes: number) {
    body = filler(bytes)
  },
  startTopics(): RawFacts {
    topics = new RawTopics()
    return topics.facts
  },
  async publish({ waves, ...wave }: RawWave & { waves: number }) {
    for (let at = 0; at < waves; at++) {
      topics!.publish(wave)
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  },
  cpuMs() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },
})
