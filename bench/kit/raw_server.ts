/** Serves fixed answers and bare topics with plain Bun.serve and TLS, as a child process: the lower bound of the venue's cost. */

import type { Server } from 'bun'
import { generateTls } from '../../enclave/x509'
import { answerQuestions } from './child_process'

let body = ''
let topics: RawTopics | undefined

// The venue's process imports this file for its topics, and answers other questions.
if (import.meta.main)
  answerQuestions({
    /** Answers POST and GET with `answer_bytes` of JSON; of a request only the JSON body is read. */
    start(options: { answer_bytes: number }): RawFacts {
      body = filler(options.answer_bytes)
      const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
      const answer = () => new Response(body, { headers })
      const { cert_pem: certificate, key_pem: key } = generateTls([], Date.now())
      const { port } = Bun.serve({
        hostname: '127.0.0.1',
        port: 0,
        tls: { cert: certificate, key },
        fetch: (request) => (request.method === 'POST' ? request.json().then(answer) : answer()),
      })
      return { port: port!, certificate }
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

export type RawFacts = { port: number; certificate: string }
export type RawWave = { topics: string[]; per_wave: number; bytes: number }

/** JSON text of the given size. */
const filler = (bytes: number) => JSON.stringify({ filler: 'x'.repeat(Math.max(0, bytes - 13)) })

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
