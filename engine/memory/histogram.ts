/** Counts durations in fixed buckets: a few numbers, however many durations there were. */

/** Upper bounds in seconds, from a sync of a fast disk to one that holds everything up. */
const BOUNDS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5] as const

export class Histogram {
  private readonly counts = new Float64Array(BOUNDS_S.length + 1)

  observe(duration_ms: number): void {
    let at = 0
    while (at < BOUNDS_S.length && duration_ms > BOUNDS_S[at]! * 1_000) at++
    this.counts[at]!++
  }

  /** Durations of at most `le` seconds, for each bound; the last one, `+Inf`, is all of them. */
  cumulative(): { le: string; count: number }[] {
    let count = 0
    return [...BOUNDS_S.map(String), '+Inf'].map((le, at) => {
      count += this.counts[at]!
      return { le, count }
    })
  }
}
