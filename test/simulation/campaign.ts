/**
 * Plays schedules. The runs of a group begin on copies of one prepared venue. In a run single processes end while the rest
 * goes on. Each `await` that a run reaches begins another schedule, in which everything stops there and starts again on copies of
 * folder, wallet and chain of that moment (`image.ts`).
 */
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hashFast } from '../../client/wallet/hash_fast'
import { SNAPSHOT_PACE } from '../../engine/limits'
import { Random } from '../kit/random'
import type { Ledger } from '../kit/venue/memory_chain'
import { type Await, awaits, run } from './awaits'
import { LedgerFacts, Maker } from './campaign_check'
import { changes } from './changes'
import { faultyFiles } from './faulty_files'
import { type ChainState, chainState, copyFolder, copyWallet, type Known, restoreChain } from './image'
import { Schedule, type Tally } from './schedule'
import { SimulatedTime } from './simulated_time'
import { SimulatedVenue } from './simulated_venue'
import { simulateThreads } from './threads'

/** Schedules that stop at equal bytes. */
const FEW = 4
/** Stops at each `await`. */
export const ENOUGH = 100

type Prepared = { dir: string; ledger: Ledger; chain: ChainState; makers: readonly [Maker, Maker] }
type Image = {
  dir: string
  wallet: string
  chain: ChainState
  known: Known | undefined
  /** Where schedules stop that go on from it, and the moment of the first. */
  stops: Await[]
  first: string
}
type Figures = { runs: number; schedules: number; stops: number; images: number; lives: number }

export class Campaign {
  readonly tally: Tally = new Map()
  readonly figures: Figures = { runs: 0, schedules: 0, stops: 0, images: 0, lives: 0 }
  private readonly time = new SimulatedTime()
  private schedule: Schedule | undefined
  private folders = 0

  constructor(
    private readonly folder: string,
    private readonly traced: boolean,
  ) {
    hashFast()
    Object.assign(SNAPSHOT_PACE, { every_ms: 2_000, look_ms: 500 })
    simulateThreads(this.time)
    faultyFiles((call) => this.schedule?.meets(call))
  }

  /** @returns the laws that did not hold, with the seeds */
  async group(seed: number, runs: number): Promise<string[]> {
    const prepared = await this.prepare(seed)
    try {
      for (let at = 0; at < runs; at++) {
        const broken = await this.run(prepared, seed + at)
        if (broken.length > 0) return [...broken, `seed ${seed}, run ${at}`]
      }
      return []
    } finally {
      rmSync(prepared.dir, { recursive: true, force: true })
    }
  }

  private name(kind: string): string {
    return join(this.folder, `${kind}-${this.folders++}`)
  }
  /** Path in a new folder, for the files that a client makes beside it. */
  private wallet(): string {
    const folder = this.name('wallet')
    mkdirSync(folder)
    return join(folder, 'wallet.json')
  }
  private open(seed: number, left?: { dir: string; ledger: Ledger }): SimulatedVenue {
    const { time } = this
    time.random = new Random(seed ^ 0x5bd1e995)
    run.venue = undefined
    run.target = undefined
    time.slow_ms = 0
    time.clear()
    const venue = new SimulatedVenue(time, left)
    venue.random = time.random
    venue.start()
    return venue
  }
  private plan(
    venue: SimulatedVenue,
    seed: number,
    makers: Prepared['makers'],
    path: string,
    at?: Await,
  ): Schedule {
    const random = new Random(seed)
    const is_long = random.below(20) === 0
    const size = {
      calls: is_long ? 8 : 1 + random.below(3),
      mishaps: is_long ? 3 : random.below(3),
      trading_ms: is_long ? 6_000 : 1_200,
      is_thin: random.below(3) === 0,
    }
    const facts = new LedgerFacts(venue.site.ledger)
    const given = { seed, path, makers, facts, tally: this.tally, size, at }
    this.schedule = new Schedule(venue, this.time, given)
    return this.schedule
  }

  /** A venue that has served a few traders. */
  private async prepare(seed: number): Promise<Prepared> {
    const venue = this.open(seed)
    const makers = [new Maker('buyer', 'buy'), new Maker('seller', 'sell')] as const
    while (!venue.rests) await this.time.step()
    for (const maker of makers) await this.time.wait(maker.provision(venue.open))
    for (let at = 0; at < seed % 3; at++) {
      this.time.clear()
      await this.plan(venue, seed + 1_000_000 + at, makers, this.wallet()).run()
    }
    const { dir, ledger } = venue.site
    const kept = this.name('prepared')
    copyFolder(dir, kept)
    const chain = chainState(ledger)
    venue.remove()
    return { dir: kept, ledger, chain, makers }
  }

  private async run({ dir, ledger, chain, makers }: Prepared, seed: number): Promise<string[]> {
    restoreChain(ledger, chain)
    const own = this.name('run')
    copyFolder(dir, own)
    const images: Image[] = []
    const path = this.wallet()
    const venue = this.open(seed, { dir: own, ledger })
    const schedule = this.plan(venue, seed, makers, path, this.aim(new Random(seed ^ 0x3c6ef372)))
    // The runs of a group begin with the same start: every fifth stops in it, too, and more as long as its awaits are rare.
    const watch = () => this.watch(venue, schedule, images, path)
    if (seed % 5 === 0 || awaits.some((one) => isRare(one) && one.phases.has('starts'))) watch()
    const broken = await schedule.run(watch).catch((error: unknown) => [`${(error as Error).stack}`])
    run.visit = undefined
    rmSync(dirname(path), { recursive: true, force: true })
    this.figures.runs++
    this.figures.schedules++
    this.figures.lives += venue.lives
    venue.remove()
    if (this.traced || broken.length > 0) console.log(schedule.trace.join('\n'))
    const random = new Random(seed ^ 0x1f83d9ab)
    for (const image of images.toReversed()) {
      // Where few schedules stop at equal bytes, and none at a rare `await`, one in three is played.
      const is_played = image.stops.length >= FEW || image.stops.some(isRare) || random.below(3) === 0
      if (is_played && broken.length === 0) broken.push(...(await this.goOn(image, ledger, makers, seed)))
      for (const folder of [image.dir, dirname(image.wallet)])
        rmSync(folder, { recursive: true, force: true })
    }
    return broken
  }

  /** Takes an image where anything has changed since the last one. */
  private watch(venue: SimulatedVenue, schedule: Schedule, images: Image[], path: string): void {
    let last = ''
    const { ledger } = venue.site
    const configs: unknown[] = []
    run.visit = (one, moment) => {
      if (!configs.includes(ledger.config)) configs.push(ledger.config)
      const { leaf_count } = ledger.notes
      const of_chain = `${configs.indexOf(ledger.config)} ${leaf_count} ${ledger.settled.length} ${ledger.slot}`
      const now = `${changes.venue} ${changes.client} ${of_chain} ${schedule.changes}`
      if (now !== last) {
        last = now
        const [dir, wallet] = [this.name('image'), this.wallet()]
        copyFolder(venue.site.dir, dir)
        copyWallet(path, wallet)
        const first = `${one.name} ${moment}`
        images.push({ dir, wallet, chain: chainState(ledger), known: schedule.known, stops: [], first })
      }
      images.at(-1)!.stops.push(one)
    }
  }

  /** Everything stopped: venue and client start again on what is left, and come to rest. */
  private async goOn(
    image: Image,
    ledger: Ledger,
    makers: Prepared['makers'],
    seed: number,
  ): Promise<string[]> {
    restoreChain(ledger, image.chain)
    const venue = this.open(seed, { dir: image.dir, ledger })
    const schedule = this.plan(venue, seed, makers, image.wallet)
    const broken = await schedule
      .recover(image.known)
      .catch((error: unknown) => [`${(error as Error).stack}`])
    venue.remove()
    const { stops } = image
    for (const one of stops) one.stops++
    this.figures.images++
    this.figures.stops += stops.length
    this.figures.schedules += stops.length
    if (broken.length > 0) console.log(schedule.trace.join('\n'))
    return broken.length === 0 ? [] : [...broken, `after a stop at ${image.first}`]
  }

  /** Mostly a rare one of those that were reached, the one that was tried least often of two. */
  private aim(random: Random): Await | undefined {
    const reached = awaits.filter(({ visits }) => visits > 0)
    const rare = reached.filter(isRare)
    const among = rare.length > 0 && random.below(4) > 0 ? rare : reached
    if (random.below(4) === 0 || among.length === 0) return undefined
    const ended = ({ crashes, stops, chosen }: Await) => crashes + stops + chosen
    const [one, other] = [random.pick(among), random.pick(among)]
    return ended(one) < ended(other) ? one : other
  }
}

const isRare = ({ stops, visits }: Await): boolean => visits > 0 && stops < ENOUGH
