/**
 * Plays schedules. The runs of a group begin on copies of one prepared venue. In a run single processes end while the rest
 * goes on. Each `await` that a run reaches begins another schedule, in which everything stops there and starts again on copies of
 * folder, wallet and chain of that moment (`image.ts`).
 */
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hashFast } from '../../client/wallet/hash_fast'
import { LIMITS, SNAPSHOT_PACE } from '../../engine/limits'
import { FIRST_VERSION, VERSIONS } from '../../engine/machine/state/state'
import { Random } from '../kit/random'
import { type Await, awaits, type Life, lives, run, waiting } from './awaits'
import { changes } from './changes'
import { faultyFiles } from './faulty_files'
import { ENOUGH, type Focus, mostNeeded, needOf } from './guide'
import { Hunt } from './hunt'
import { copyFolder, copyWallet, type Known } from './image'
import { Schedule, SLOT_MS, type Tally } from './schedule'
import { SimulatedTime } from './simulated_time'
import { SimulatedVenue } from './simulated_venue'
import { simulateThreads } from './threads'
import { ChainWorld } from './worlds/chain_world'
import { MemoryWorld } from './worlds/memory_world'
import { Network } from './worlds/network'
import type { World } from './worlds/world'

/** Schedules that stop at equal bytes. */
const FEW = 4
/** Of the moments at which no `await` wants more stops, one in so many is played. */
const SAMPLED = { memory: 1, chain: 30, cluster: 60 }
/** In one run an `await` asks for so many moments. */
const WANTED = { memory: 100, chain: 20, cluster: 12 }
/** Of the moments left in a run so many are started again at most, the most needed ones. */
const PLAYED = { memory: Number.POSITIVE_INFINITY, chain: 60, cluster: 24 }
/** The same where a campaign is guided. */
const GUIDED = { memory: 24, chain: 24, cluster: 10 }
/** Ends of processes at awaits that lack them: in a start, and in a run, whose traders come to their calls between them. */
const HUNTED = { start: 20, run: 3 }
/** Runs of these end no process at an await, so that exits and stops complete; the starts on their images do. */
const UNHUNTED: readonly Focus[] = ['exits', 'stops']
/** Of the groups on a chain, one in so many begins with empty disks, and of the others one in so many after a long outage. */
const LOST = 4
const AGED = 4
/** Longer than the venue keeps records (`retention_days`). */
const OUTAGE_MS = 40 * 86_400_000
/** Of a segment: one in so many groups has longer ones, whose zeros are written in several pieces. */
const LONG = 8
const SEGMENT = { short: 32_768, long: 3 * LIMITS.journal_spare_piece_bytes }

type Prepared = { dirs: string[]; world: World; moment: unknown }
type Image = {
  dirs: string[]
  wallet: string
  moment: unknown
  known: Known | undefined
  /** Where schedules stop that go on from it, and the moment of the first. */
  stops: Map<Await, number>
  first: string
}
/** Of a run: `others` holds the folder of its end. */
type Course = { world: World; seed: number; others: string }
type Figures = { runs: number; schedules: number; stops: number; images: number; lives: number }

/** Bounds that a short run can reach: of batches in a record, the history's lag, reads, a segment, payouts, ages and looks. */
const SMALL = {
  ...{ restore_batches_per_command_max: 2, batches_journaled_max: 2, history_lag_replay_events_max: 8 },
  ...{ history_work_ms: 0, read_unit_tokens: 0.2 },
  ...{ disconnect_grace_ms: 4_000, anchor_begins_at: 0.2, queue_capacity_first: 2 },
  ...{ exits_look_slots: 2, log_read_parts: 2 },
}

/** Longest start of the venue of a group. */
const PREPARED_MS = 120_000
export const KINDS = ['memory', 'chain', 'cluster'] as const
/** Of worlds. */
export type Kind = (typeof KINDS)[number]

export class Campaign {
  readonly tally: Tally = new Map()
  readonly figures: Figures = { runs: 0, schedules: 0, stops: 0, images: 0, lives: 0 }
  private readonly time = new SimulatedTime()
  private schedule: Schedule | undefined
  private folders = 0

  private readonly network = new Network(this.time)
  private kind: Kind = 'memory'

  private focus: Focus = 'trade'

  /** @param guided plays only what gives awaits the ends that they lack */
  constructor(
    private readonly folder: string,
    private readonly traced: boolean,
    private readonly guided: boolean,
  ) {
    hashFast()
    Object.assign(SNAPSHOT_PACE, { every_ms: 2_000, look_ms: 500 })
    Object.assign(LIMITS, SMALL)
    // The operator puts a second version in force, which changes nothing else.
    ;(VERSIONS as number[])[1] = FIRST_VERSION + 1
    simulateThreads(this.time)
    faultyFiles((call) => this.schedule?.meets(call))
  }

  /** @returns the laws that did not hold, with the seeds */
  async group(kind: Kind, seed: number, runs: number, focus: Focus = 'trade'): Promise<string[]> {
    this.kind = kind
    this.focus = focus
    const prepared = await this.prepare(seed)
    try {
      for (let at = 0; at < runs; at++) {
        const broken = await this.run(prepared, seed + at)
        if (broken.length > 0) return [...broken, `world ${kind}, seed ${seed}, run ${at}`]
      }
      return []
    } finally {
      for (const dir of prepared.dirs) rmSync(dir, { recursive: true, force: true })
    }
  }

  private name(kind: string): string {
    return join(this.folder, `${kind}-${this.folders++}`)
  }
  /** Path in a new folder, for the files that a client makes next to it. */
  private wallet(): string {
    const folder = this.name('wallet')
    mkdirSync(folder)
    return join(folder, 'wallet.json')
  }
  private open(seed: number, world: World, others?: string): SimulatedVenue {
    const { time } = this
    time.random = new Random(seed ^ 0x5bd1e995)
    run.venue = undefined
    run.target = undefined
    lives.clear()
    time.slow_ms = 0
    time.clear()
    const venue = new SimulatedVenue(time, world)
    Object.assign(venue, { random: time.random, others })
    venue.start()
    return venue
  }
  private plan(
    venue: SimulatedVenue,
    seed: number,
    path: string,
    aim: () => Await | undefined = () => undefined,
  ): Schedule {
    const random = new Random(seed)
    // A start costs more than a call where the chain is real.
    const is_long = this.kind !== 'memory' || this.guided || random.below(20) === 0
    const { focus, guided } = this
    const hunted = guided
      ? { start: HUNTED.start, run: UNHUNTED.includes(focus) ? 0 : HUNTED.run }
      : { start: 0, run: 0 }
    const size = {
      calls: this.guided ? 16 : is_long ? 8 : 1 + random.below(3),
      mishaps: is_long ? (focus === 'ends' ? 6 : 3) : random.below(3),
      stops: focus === 'stops' ? 6 : venue.world.nodes > 1 ? 1 : 0,
      trading_ms: this.guided ? 10_000 : is_long ? 6_000 : 1_200,
      is_thin: random.below(3) === 0,
      ...{ focus, hunted },
    }
    const given = { seed, path, tally: this.tally, size, aim }
    this.schedule = new Schedule(venue, this.time, given)
    return this.schedule
  }

  /** A venue that has served a few traders. */
  private async prepare(seed: number): Promise<Prepared> {
    const { time } = this
    time.random = new Random(seed)
    const chance = new Random(seed ^ 0x27d4eb2f)
    const journal_segment_bytes = chance.below(LONG) === 0 ? SEGMENT.long : SEGMENT.short
    Object.assign(LIMITS, { journal_segment_bytes })
    // The last process of the group before has ended, and does not prepare this one.
    run.venue = undefined
    const world: World =
      this.kind === 'memory'
        ? new MemoryWorld(time)
        : await ChainWorld.prepare(time, this.network, this.name('venue'), this.kind === 'cluster' ? 3 : 1)
    const venue = await this.rested(seed, world)
    await time.wait(world.prepareMarket())
    const loses = this.kind !== 'memory' && new Random(seed ^ 0x1b873593).below(LOST) === 0
    // A restore reads settled batches.
    for (let at = 0; at < Math.max(seed % 3, loses ? 1 : 0); at++) {
      time.clear()
      const broken = await this.plan(venue, seed + 1_000_000 + at, this.wallet()).run()
      if (broken.length > 0) throw new Error(`in the preparation: ${broken.join('; ')}`)
    }
    if (loses) {
      venue.remove()
      run.venue = undefined
      await time.wait(world.lose!())
    }
    const dirs = this.copies(world, 'prepared')
    venue.remove()
    if (!loses && chance.below(AGED) === 0) {
      run.venue = undefined
      time.pass(OUTAGE_MS)
      world.ages()
    }
    const moment = world.moment()
    return { dirs, world, moment }
  }
  /** A venue whose first start, which ends at some awaits, is over. */
  private async rested(seed: number, world: World): Promise<SimulatedVenue> {
    const { time } = this
    const venue = this.open(seed, world)
    const slots = () => {
      time.at(SLOT_MS, slots)
      world.slot(time.random, true, venue.up)
    }
    slots()
    const { random } = time
    const end = (life: Life) => venue.crashOf(life)
    const ends = this.guided ? HUNTED.start : 0
    const hunt = new Hunt(time, venue, { random, ends, for_ms: PREPARED_MS / 4, end })
    while (!hunt.ended || !venue.rests) {
      if (time.now_ms > PREPARED_MS) throw new Error(`not prepared: ${venue.broken.join()} ${venue.status}`)
      await time.step()
    }
    return venue
  }

  private async run({ dirs, world, moment }: Prepared, seed: number): Promise<string[]> {
    const own = dirs.map((dir) => {
      const copy = this.name('run')
      copyFolder(dir, copy)
      return copy
    })
    this.putBack(world, moment, own)
    const images: Image[] = []
    const path = this.wallet()
    const venue = this.open(seed, world)
    const chance = new Random(seed ^ 0x3c6ef372)
    const schedule = this.plan(venue, seed, path, () => this.aim(chance))
    // The runs of a group begin with the same start: every fifth stops in it, too, and more as long as its awaits are rare.
    const watch = () => this.watch(venue, schedule, images, path)
    if (seed % 5 === 0 || awaits.some((one) => isRare(one) && one.phases.has('starts'))) watch()
    const broken = await schedule.run(watch).catch((error: unknown) => [`${(error as Error).stack}`])
    run.visit = undefined
    const others = this.name('others')
    copyFolder(world.dirOf(0), others)
    rmSync(dirname(path), { recursive: true, force: true })
    this.figures.runs++
    this.figures.schedules++
    this.figures.lives += venue.lives
    venue.remove()
    if (this.traced || broken.length > 0) console.log(schedule.trace.join('\n'))
    const random = new Random(seed ^ 0x1f83d9ab)
    const count = (this.guided ? GUIDED : PLAYED)[this.kind]
    const needed = Number.isFinite(count) ? mostNeeded(images, count) : undefined
    const isPlayed = (image: Image) =>
      needed?.has(image) ?? (!this.isFew(image) || isAnyRare(image) || random.below(3) === 0)
    broken.push(
      ...(await this.goOnFrom(images, broken.length === 0 ? isPlayed : () => false, { world, seed, others })),
    )
    rmSync(others, { recursive: true, force: true })
    return broken
  }

  /** The newest first: trees of the chain in memory are put back by their size. */
  private async goOnFrom(
    images: readonly Image[],
    isPlayed: (image: Image) => boolean,
    of: Course,
  ): Promise<string[]> {
    const broken: string[] = []
    for (const image of images.toReversed()) {
      const is_played = isPlayed(image)
      if (is_played && broken.length === 0) broken.push(...(await this.goOn(image, of)))
      for (const folder of [...image.dirs, dirname(image.wallet)])
        rmSync(folder, { recursive: true, force: true })
    }
    return broken
  }

  private putBack(world: World, moment: unknown, dirs: readonly string[]): void {
    world.putBack(moment as never)
    for (const [node, dir] of dirs.entries()) world.moveTo(node, dir)
  }
  /** Of the folders of all nodes. */
  private copies(world: World, kind: string): string[] {
    return Array.from({ length: world.nodes }, (_, node) => {
      const copy = this.name(kind)
      copyFolder(world.dirOf(node), copy)
      return copy
    })
  }

  /** Takes an image where anything has changed since the last one. */
  private watch(venue: SimulatedVenue, schedule: Schedule, images: Image[], path: string): void {
    let last = ''
    const { world } = venue
    const random = new Random(this.figures.runs ^ 0x2545f491)
    let image: Image | undefined
    let sampled = false
    for (const one of awaits) one.planned = 0
    run.visit = (one, moment) => {
      const now = `${changes.venue} ${changes.client} ${world.mark()} ${schedule.changes}`
      if (now !== last) {
        last = now
        image = undefined
        sampled = !this.guided && random.below(SAMPLED[this.kind]) === 0
      }
      if (image === undefined && (sampled || this.isWanted(one))) {
        const [dirs, wallet] = [this.copies(world, 'image'), this.wallet()]
        copyWallet(path, wallet)
        const first = `${one.name} ${moment}`
        image = { dirs, wallet, moment: world.moment(), known: schedule.known, stops: new Map(), first }
        images.push(image)
        for (const other of waiting()) stopsAt(image, other)
      }
      if (image !== undefined) stopsAt(image, one)
    }
  }

  /** Everything stopped: venue and client start again on the remains, and come to rest. */
  private async goOn(image: Image, { world, seed, others }: Course): Promise<string[]> {
    this.putBack(world, image.moment, image.dirs)
    const venue = this.open(seed, world, others)
    const schedule = this.plan(venue, seed, image.wallet)
    const broken = await schedule
      .recover(image.known)
      .catch((error: unknown) => [`${(error as Error).stack}`])
    venue.remove()
    let stops = 0
    for (const [one, times] of image.stops) {
      one.stops += times
      stops += times
    }
    this.figures.images++
    this.figures.stops += stops
    this.figures.schedules += stops
    if (broken.length > 0) {
      console.log(schedule.trace.join('\n'))
      broken.push(`after a stop at ${image.first}`)
    }
    return broken
  }

  private isWanted({ stops, planned }: Await): boolean {
    return planned < WANTED[this.kind] && stops + planned < ENOUGH
  }
  private isFew({ stops }: Image): boolean {
    let sum = 0
    for (const times of stops.values()) sum += times
    return sum < FEW
  }
  /** Mostly a rare one of the reached, the one that was tried least often of two. */
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

function stopsAt({ stops }: Image, one: Await): void {
  stops.set(one, (stops.get(one) ?? 0) + 1)
  one.planned++
}
const isRare = (one: Await): boolean => one.visits > 0 && needOf(one) > 0
const isAnyRare = ({ stops }: Image): boolean => [...stops.keys()].some(isRare)
