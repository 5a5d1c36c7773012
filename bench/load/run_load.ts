/** Sends requests in a closed loop (as fast as answers arrive) or an open loop (on a schedule that slow answers do not delay). */
import { random } from '../kit/figures'
import type { Answered, HttpsLanes } from './https_lanes'

/** The answers of one load. */
export class Tally {
  readonly latencies_ms: Float64Array
  /** The same from the moment of sending, without the generator's delay. */
  readonly since_sent_ms: Float64Array
  /** Open loop: the generator's delay after the planned moment. */
  readonly lateness_ms: Float64Array
  /** Answers by status. */
  readonly statuses: Record<string, number> = {}
  /** First body of an answer that was not a success. */
  failure: string | undefined
  answered = 0
  /** Of the last answer. */
  body_bytes = 0
  elapsed_ms = 0
  private readonly began = performance.now()
  private readonly finished = Promise.withResolvers<void>()

  constructor(private readonly count: number) {
    this.latencies_ms = new Float64Array(count)
    this.since_sent_ms = new Float64Array(count)
    this.lateness_ms = new Float64Array(count)
  }

  take({ status, body }: Answered, due_ms: number, sent_ms: number): void {
    const now_ms = performance.now()
    this.since_sent_ms[this.answered] = now_ms - sent_ms
    this.latencies_ms[this.answered++] = now_ms - due_ms
    this.body_bytes = body.length
    this.statuses[status] = (this.statuses[status] ?? 0) + 1
    if (status >= 300 || status === 0) this.failure ??= body
    if (this.answered === this.count) this.finished.resolve()
  }

  /** Resolves once every request is answered. */
  async complete(): Promise<this> {
    await this.finished.promise
    this.elapsed_ms = performance.now() - this.began
    return this
  }
}

/** Closed loop: every lane sends its next request when it has its answer, which gives the venue's maximum. */
export async function closedLoop(lanes: HttpsLanes, requests: readonly Buffer[]): Promise<Tally> {
  const tally = new Tally(requests.length)
  let next = 0
  const send = () => {
    const request = requests[next]
    if (request === undefined) return
    const sent_ms = performance.now()
    const went = lanes.send(request, (answer) => {
      tally.take(answer, sent_ms, sent_ms)
      send()
    })
    if (went) next++
  }
  for (let lane = lanes.idle; lane > 0; lane--) send()
  return await tally.complete()
}

/**
 * Open loop: requests are due at random moments of the given mean rate, independent of the answers. Latency counts from
 * the moment a request was due, so it includes waiting for a free lane or a late timer (no coordinated omission).
 */
export async function openLoop(
  lanes: HttpsLanes,
  requests: readonly Buffer[],
  per_second: number,
): Promise<Tally> {
  const tally = new Tally(requests.length)
  const next = random(5)
  const due_ms = new Float64Array(requests.length)
  let at_ms = performance.now() + 5
  for (let at = 0; at < due_ms.length; at++) {
    at_ms += (-Math.log((next() + 1) / 2 ** 32) * 1_000) / per_second
    due_ms[at] = at_ms
  }
  let sent = 0
  const sendDue = () => {
    const now_ms = performance.now()
    while (sent < requests.length && due_ms[sent]! <= now_ms) {
      const since_ms = due_ms[sent]!
      const sent_ms = performance.now()
      if (
        !lanes.send(requests[sent]!, (answer) => {
          tally.take(answer, since_ms, sent_ms)
          sendDue()
        })
      )
        return
      tally.lateness_ms[sent++] = performance.now() - since_ms
    }
  }
  const timer = setInterval(sendDue, 1)
  return await tally.complete().finally(() => clearInterval(timer))
}
