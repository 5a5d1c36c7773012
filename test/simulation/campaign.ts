/** Plays schedules: each venue serves some of them, one after the other. */
import { join } from 'node:path'
import { hashFast } from '../../client/wallet/hash_fast'
import { Random } from '../kit/random'
import { type Await, awaits, run } from './awaits'
import { LedgerFacts, Maker } from './campaign_check'
import { faultyFiles } from './faulty_files'
import { Schedule, type Tally } from './schedule'
import { SimulatedTime } from './simulated_time'
import { SimulatedVenue } from './simulated_venue'
import { simulateThreads } from './threads'

const OF_ONE_VENUE = 50

export class Campaign {
  readonly tally: Tally = new Map()
  done = 0
  lives = 0
  private readonly time = new SimulatedTime()
  private schedule: Schedule | undefined

  constructor(private readonly folder: string) {
    hashFast()
    simulateThreads(this.time)
    faultyFiles((call) => this.schedule?.meets(call))
  }

  /** @returns the laws that did not hold, with the seeds */
  async play(seed: number, count: number, traced: boolean): Promise<string[]> {
    for (let at = 0; at < count; at += OF_ONE_VENUE) {
      const broken = await this.venue(seed + at, Math.min(OF_ONE_VENUE, count - at), traced)
      if (broken.length > 0) return broken
    }
    return []
  }

  private async venue(seed: number, count: number, traced: boolean): Promise<string[]> {
    const { time } = this
    time.random = new Random(seed ^ 0x5bd1e995)
    run.venue = undefined
    time.clear()
    const venue = new SimulatedVenue(time)
    venue.random = time.random
    venue.start()
    while (!venue.rests) if (!(await time.step())) throw new Error('the venue does not start')
    const facts = new LedgerFacts(venue.open.ledger)
    const makers = [new Maker('buyer', 'buy'), new Maker('seller', 'sell')] as const
    for (const maker of makers) await time.wait(maker.provision(venue.open))
    try {
      for (let at = 0; at < count; at++) {
        time.clear()
        const random = new Random(seed + at)
        const size = { calls: 8, mishaps: 3, trading_ms: 6_000, is_thin: random.below(3) === 0 }
        const path = join(this.folder, `wallet-${seed + at}.json`)
        const given = { seed: seed + at, path, makers, facts, tally: this.tally, size, at: this.aim(random) }
        this.schedule = new Schedule(venue, time, given)
        const broken = await this.schedule.run().catch((error: unknown) => [`${(error as Error).stack}`])
        this.done++
        if (traced || broken.length > 0) console.log(this.schedule.trace.join('\n'))
        if (broken.length > 0) return [...broken, `seed ${seed}, schedule ${at}`]
      }
      return []
    } finally {
      this.lives += venue.lives
      this.schedule = undefined
      venue.remove()
    }
  }
  /** Mostly one of those at which the fewest processes ended. */
  private aim(random: Random): Await | undefined {
    const reached = awaits.filter(({ visits }) => visits > 0)
    if (random.below(2) === 0 || reached.length === 0) return undefined
    const one = random.pick(reached)
    const other = random.pick(reached)
    return one.crashes + one.chosen / 20 < other.crashes + other.chosen / 20 ? one : other
  }
}
