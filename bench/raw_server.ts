/** The floor under the venue's HTTPS face: bare Bun.serve with TLS in a process of its own, which answers fixed bytes. */
import { generateTls } from '../enclave/tls'
import { answerQuestions } from './child_process'

export type RawFacts = { port: number; certificate: string }

let body = ''

answerQuestions({
  /** Reads JSON and answers `answer_bytes` of JSON to POST and GET; sockets join one topic. */
  start(options: { answer_bytes: number }): RawFacts {
    const tls = generateTls([], Date.now())
    const { cert_pem: cert, key_pem: key } = tls
    body = JSON.stringify({ filler: 'x'.repeat(Math.max(0, options.answer_bytes - 13)) })
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      tls: { cert, key },
      async fetch(request) {
        if (request.method === 'POST') await request.json()
        return new Response(body, { headers })
      },
    })
    return { port: server.port!, certificate: cert }
  },
  cpuMs() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },
})
