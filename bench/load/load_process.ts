/** The process that sends the load of a bench, so that the venue's core does not pay for its client. */
import { answerQuestions } from '../child_process'
import { quantile } from '../figures'
import { HttpsLanes, type Target } from './https_lanes'
import { closedLoop, type LoadResult, openLoop } from './run_load'
import { getRequest, type PlaceLoad, signedPlaces } from './signed_places'

export type LoadReport = {
  answered: number
  per_second: number
  statuses: Record<string, number>
  failure: string | undefined
  p50_ms: number
  p99_ms: number
  p999_ms: number
  max_ms: number
  lateness_p99_ms: number
}
export type GetLoad = { path: string; host: string; token: string | undefined; count: number }

let requests: Buffer[] = []

answerQuestions({
  /** Signing ahead keeps the generator's own cost out of the figures. */
  signPlaces(load: PlaceLoad) {
    requests = signedPlaces(load)
    return requests.reduce((sum, one) => sum + one.length, 0) / requests.length
  },
  repeatGet({ path, host, token, count }: GetLoad) {
    requests = new Array<Buffer>(count).fill(getRequest(path, host, token))
  },
  /** Sends the next `count` of the prepared requests. */
  async run(run: { target: Target; lanes: number; count: number; per_second?: number }) {
    const lanes = await HttpsLanes.open(run.target, run.lanes)
    const batch = requests.splice(0, run.count)
    const result =
      run.per_second === undefined
        ? await closedLoop(lanes, batch)
        : await openLoop(lanes, batch, run.per_second)
    lanes.close()
    return reportOf(result)
  },
})

function reportOf(result: LoadResult): LoadReport {
  const { answered, statuses, failure, elapsed_ms } = result
  const latencies = [...result.latencies_ms]
  return {
    answered,
    per_second: (answered * 1_000) / elapsed_ms,
    statuses,
    failure,
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
    p999_ms: quantile(latencies, 0.999),
    max_ms: quantile(latencies, 1),
    lateness_p99_ms: quantile([...result.lateness_ms], 0.99),
  }
}
