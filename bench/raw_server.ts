/** The floor under the venue's face: bare Bun.serve with TLS in a process of its own, fixed answers and bare topics. */
import type { Server } from 'bun'
import { generateTls } from '../enclave/tls'
import { answerQuestions } from './child_process'

export type RawFacts = { port: number; certificate: string }

let body = ''
type Raw = Server<{ topic: string }>
let server: Raw | undefined
type Fetch = (request: Request, own: Raw) => Response | undefined | Promise<Response>

function serve(fetch: Fetch): RawFacts {
  const { cert_pem: cert, key_pem: key } = generateTls([], Date.now())
  server = Bun.serve<{ topic: string }>({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert, key },
    fetch,
    websocket: {
      perMessageDeflate: false,
      open: (socket) => void socket.subscribe(socket.data.topic),
      message: () => {},
    },
  })
  return { port: server.port!, certificate: cert }
}

const filler = (bytes: number) => JSON.stringify({ filler: 'x'.repeat(Math.max(0, bytes - 13)) })

answerQuestions({
  /** Reads JSON and answers `answer_bytes` of JSON to POST and GET, and looks at nothing else of a request. */
  start(options: { answer_bytes: number }): RawFacts {
    body = filler(options.answer_bytes)
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
    const answer = () => new Response(body, { headers })
    return serve((request) => (request.method === 'POST' ? request.json().then(answer) : answer()))
  },
  /** Sockets join the topic of their token. */
  startSockets(): RawFacts {
    return serve((request, own) => {
      const topic = new URL(request.url).searchParams.get('token')!
      return own.upgrade(request, { data: { topic } }) ? undefined : new Response(null, { status: 426 })
    })
  },
  answerBytes(bytes: number) {
    body = filler(bytes)
  },
  /** Publishes waves of messages to every topic; each wave is one turn of the loop, as a group commit is. */
  async publish(options: { topics: string[]; waves: number; per_wave: number; bytes: number }) {
    const text = filler(options.bytes)
    for (let wave = 0; wave < options.waves; wave++) {
      for (const topic of options.topics) {
        for (let at = 0; at < options.per_wave; at++) server!.publish(topic, text)
      }
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  },
  cpuMs() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },
})
