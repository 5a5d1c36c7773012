/** Sends the load of a bench from a separate process, so that the venue's figures do not include the client. */
import { answerQuestions } from '../kit/child_process'
import { quantile } from '../kit/figures'
import { EventSockets } from './event_sockets'
import { HttpsLanes, type Target } from './https_lanes'
import { closedLoop, openLoop, type Tally } from './run_load'
import { getRequest, type PlaceLoad, signedPlaces } from './signed_places'

export type LoadReport = {
  answered: number
  per_second: number
  statuses: Record<string, number>
  failure: string | undefined
  body_bytes: number
  p50_ms: number
  p99_ms: number
  p999_ms: number
  max_ms: number
  since_sent_p99_ms: number
  lateness_p99_ms: number
}
type GetLoad = { path: string; host: string; token: string | undefined; count: number }

let requests: Buffer[] = []
let sockets: EventSockets | undefined
/** Of every server asked so far, by port. */
const lanes = new Map<number, { count: number; open: HttpsLanes }>()

answerQuestions({
  /** Signs in advance, which keeps the generator's cost out of the figures. */
  signPlaces(load: PlaceLoad) {
    requests = signedPlaces(load)
    return requests.reduce((sum, one) => sum + one.length, 0) / requests.length
  },
  repeatGet({ path, host, token, count }: GetLoad) {
    requests = new Array<Buffer>(count).fill(getRequest(path, host, token))
  },
  /** Sends the next `count` prepared requests; reuses the connections of the previous run to the same server. */
  async run(run: { target: Target; lanes: number; count: number; per_second?: number }) {
    const open = await openLanes(run.target, run.lanes)
    const batch = requests.splice(0, run.count)
    const result =
      run.per_second === undefined
        ? await closedLoop(open, batch)
        : await openLoop(open, batch, run.per_second)
    return reportOf(result)
  },
  /** Opens sockets, the tokens in turn, and waits until all are open. */
  async openSockets(open: { target: Target; path: string; tokens: string[]; count: number }) {
    sockets?.close()
    sockets = await EventSockets.open(open)
  },
  closeSockets() {
    sockets?.close()
    sockets = undefined
  },
  /** Resolves once every socket has received `each` more messages, with the milliseconds since the first of them. */
  async receive(each: number) {
    return await sockets!.receive(each)
  },
})

/** Connections are kept: simultaneous handshakes of all lanes would add a pause and a cost that requests do not have. */
async function openLanes(target: Target, count: number): Promise<HttpsLanes> {
  const kept = lanes.get(target.port)
  if (kept?.count === count) return kept.open
  kept?.open.close()
  const open = await HttpsLanes.open(target, count)
  lanes.set(target.port, { count, open })
  return open
}

function reportOf(result: Tally): LoadReport {
  const { answered, statuses, failure, body_bytes, elapsed_ms } = result
  const latencies = [...result.latencies_ms]
  return {
    answered,
    per_second: (answered * 1_000) / elapsed_ms,
    statuses,
    failure,
    body_bytes,
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
    p999_ms: quantile(latencies, 0.999),
    max_ms: quantile(latencies, 1),
    since_sent_p99_ms: quantile([...result.since_sent_ms], 0.99),
    lateness_p99_ms: quantile([...result.lateness_ms], 0.99),
  }
}
