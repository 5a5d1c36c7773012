/** Ends processes one after the other, each at one of the awaits that lack ends: in starts, in stops, and while they serve. */
import type { Random } from '../kit/random'
import { type Await, type Life, run } from './awaits'
import { needOf } from './guide'
import type { SimulatedTime } from './simulated_time'
import type { SimulatedVenue } from './simulated_venue'

/** Longest time from one end to the next one, most of which begin in the start that follows. */
const REST_MS = 300

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
    run.target = {
      meets: (one) => needOf(one) > 0,
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
