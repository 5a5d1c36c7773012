/** The floor under the venue's face: bare Bun.serve with TLS in a process of its own, fixed answers and bare topics. */
import { answerQuestions } from './child_process'
import { filler, type RawFacts, RawTopics, type RawWave, serveRaw } from './raw_topics'

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
