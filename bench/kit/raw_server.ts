/** Serves fixed answers and bare topics with plain Bun.serve and TLS, as a child process: the lower bound of the venue's cost. */

import { generateTls } from '../../enclave/x509'
import { answerQuestions } from './child_process'
import { filler, type RawFacts, RawTopics, type RawWave } from './raw_topics'

export type { RawFacts, RawWave }

let body = ''
let topics: RawTopics | undefined

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
