/** Ends processes one after the other, each at one of the awaits that lack ends: in starts, in stops, and while they serve. */
import type { Random } from '../kit/random'
import { type Await, type Life, run } from './awaits'
import { ENOUGH, endsOf } from './guide'
import type { SimulatedTime } from './simulated_time'
import type { SimulatedVenue } from './simulated_venue'

/** Longest time from one end to the next one, most of which begin in the start that follows. */
const REST_MS = 300
/** Longest search for a rare one. */
const PATIENCE_MS = 3_000

type Terms = {
  random: Random
  /** How many, in this time. */
  ends: number
  for_ms: number
  /** Ends the process, of the venue unless another is named. */
  end: (life: Life, at: Await) => void
}

export class Hunt {
  private is_over = false

  constructor(
    private readonly time: SimulatedTime,
    private readonly venue: SimulatedVenue,
    private readonly terms: Terms,
  ) {
    time.at(terms.for_ms, () => this.stop())
    this.next(terms.ends)
  }

  get ended(): boolean {
    return this.is_over
  }
  stop(): void {
    if (this.is_over) return
    this.is_over = true
    run.target = undefined
  }

  private next(left: number): void {
    if (left === 0) this.stop()
    if (this.is_over) return
    const { time, venue, terms } = this
    const { random } = terms
    // Processes that end at the frequent awaits come to no rare ones behind them.
    let enough = random.pick([1, 10, ENOUGH])
    time.at(PATIENCE_MS, () => {
      enough = ENOUGH
    })
    run.target = {
      meets: (one) => endsOf(one) < enough,
      visits_left: 1 + random.below(random.below(3) === 0 ? 60 : 6),
      moment: random.below(2) === 0 ? 'reached' : 'answered',
      end: (life, at) => {
        terms.end(life, at)
        time.at(random.below(REST_MS), () => this.next(left - 1))
      },
    }
    if (venue.up && random.below(3) === 0)
      time.at(random.below(REST_MS), () => this.is_over || venue.restart())
  }
}

type Parts = { random: Random; time: SimulatedTime; venue: SimulatedVenue }
/** Chooses the visit of the `await` at which a process ends; where only a start or a stop comes to it, there is one. */
export function aimAt(at: Await, left_ms: number, parts: Parts, end: (life: Life) => void): void {
  const { random, time, venue } = parts
  at.chosen++
  const serves = at.phases.has('serves')
  const moment = random.below(2) === 0 ? 'reached' : 'answered'
  const aims = () => {
    run.target = { meets: (one) => one === at, visits_left: 1 + random.below(serves ? 3 : 2), moment, end }
  }
  const happens_ms = random.below(left_ms)
  if (serves) time.at(random.below(left_ms / 2), aims)
  else time.at(happens_ms, aims)
  if (serves) return
  time.at(happens_ms, () =>
    at.phases.has('starts') && random.below(2) === 0 ? venue.crash() : venue.restart(),
  )
}
