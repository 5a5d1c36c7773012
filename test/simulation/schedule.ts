/** One random schedule: a trader's calls, a market, and everything that fails around them, in simulated time from one seed. */
import { existsSync, rmSync } from 'node:fs'
import { EventsMissing } from '../../client/api/event_stream'
import { VenueProblem } from '../../client/api/venue_client'
import { Session } from '../../client/session/session'
import type { Outcome } from '../../client/session/settle'
import { Wallet } from '../../client/wallet/wallet'
import { loadWallet, openWalletFile, saveWallet, type WalletStore } from '../../client/wallet/wallet_file'
import { NotWritten } from '../../client/whole_file'
import { toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { Random } from '../kit/random'
import { accountId } from '../kit/venue/test_login'
import { type Await, Life, run } from './awaits'
import { type Call, isClosed, isExpected, MISHAPS, named, namesOf, pickCall, type Size } from './calls'
import { differences, everyPage } from './campaign_check'
import { Ended, type FileCall, type FileTrouble } from './faulty_files'
import { aimAt, Hunt } from './hunt'
import type { Known } from './image'
import type { FrameFault } from './simulated_socket'
import type { Context, Doing, SimulatedTime } from './simulated_time'
import type { SimulatedVenue } from './simulated_venue'
import { Traffic } from './traffic'
import { FAULTS, type Fault, type Weather } from './weather'

export const SLOT_MS = 400
/** Longer than any packet is under way. */
const CALM_MS = 900
const LATEST_MS = 120_000
/** Of ends in a recovery. */
const HUNT_MS = 20_000

export type Tally = Map<string, number>

export class Schedule implements Weather {
  readonly random: Random
  private readonly account: string
  private deposited = new Map<string, bigint>()
  private life = new Life()
  private store: WalletStore | undefined
  private session: Session | undefined
  private under_way = new Set<Doing>()
  private calm = true
  private prepared = false
  private disk: 'well' | 'full' | 'failing' = 'well'
  private ends_in_calls = 0
  private opening = false
  /** Outcomes of requests as callers got them, and the bytes of every request sent. */
  private told = new Map<string, string>()
  private bytes = new Map<string, string>()
  /** Counts results of callers and requests sent. */
  changes = 0
  /** Ids of requests that were open when a later call began. */
  private readonly earlier = new Set<string>()
  /** Events, in words without random values. */
  readonly trace: string[] = []
  readonly broken: string[] = []
  private readonly traffic: Traffic

  constructor(
    readonly venue: SimulatedVenue,
    readonly time: SimulatedTime,
    private readonly given: {
      seed: number
      path: string
      tally: Tally
      size: Size
      /** The next `await` at which a process is to end. */
      aim: () => Await | undefined
    },
  ) {
    this.random = new Random(given.seed)
    this.account = toHex(sha256(utf8(`trader ${given.seed}`))).slice(0, 32)
    venue.random = this.random
    venue.weather = this
    this.traffic = new Traffic(venue, time, given.size.focus, (law) => this.breaks(law))
  }

  /** @param prepared called when the venue serves the trader @returns the laws that did not hold, none if all did */
  async run(prepared: () => void = () => undefined): Promise<string[]> {
    const { calls, mishaps, stops, hunted, trading_ms } = this.given.size
    this.time.at(0, () => this.slot())
    this.time.at(1_000, () => this.second())
    await this.prepare()
    this.calm = false
    prepared()
    const from_ms = this.time.now_ms
    for (let at = 0; at < calls; at++)
      this.time.at(this.random.below(trading_ms), () =>
        this.begin(this.session && pickCall(this.session, this.random, this.given.size.is_thin)),
      )
    for (let at = 0; at < mishaps; at++) this.time.at(this.random.below(trading_ms), () => this.mishap())
    // As planned, with time for their end: of a cluster the term is handed over.
    for (let at = 0; at < stops; at++) this.time.at(this.random.below(trading_ms), () => this.stop())
    const hunt = this.hunt(hunted.run, trading_ms)
    if (hunted.start === 0) this.aim()
    this.time.at(0, () => this.reopen())
    await this.until(() => this.time.now_ms > from_ms + trading_ms)
    hunt.stop()
    run.target = undefined
    this.time.slow_ms = 0
    this.calm = true
    this.disk = 'well'
    this.ends_in_calls = 0
    await this.until(
      () =>
        this.time.now_ms > from_ms + trading_ms + CALM_MS && this.venue.rests && this.under_way.size === 0,
    )
    await this.windDown()
    await this.check()
    this.broken.push(...this.venue.world.booksBroken())
    return this.broken
  }

  /** The client's knowledge of the venue besides its wallet: none before it has one. */
  get known(): Known | undefined {
    const { deposited, told, bytes } = this
    return this.prepared ? { deposited, told: new Map(told), bytes: new Map(bytes) } : undefined
  }
  /** After a stop of everything both start again on the remains. @returns the broken laws */
  async recover(known: Known | undefined): Promise<string[]> {
    this.time.at(0, () => this.slot())
    this.time.at(1_000, () => this.second())
    const hunt = this.hunt(this.given.size.hunted.start, HUNT_MS)
    if (known !== undefined) {
      Object.assign(this, known, { prepared: true })
      this.time.at(0, () => this.reopen())
    }
    await this.until(() => hunt.ended && this.venue.rests)
    if (known !== undefined) {
      await this.windDown()
      await this.check()
    }
    this.broken.push(...this.venue.world.booksBroken())
    return this.broken
  }

  private aim(left_ms = this.given.size.trading_ms): void {
    const at = this.given.aim()
    if (at === undefined || this.calm) return
    aimAt(at, left_ms, this, (life) => {
      this.endAt(life, at)
      // Where there is time for more than one.
      if (this.given.size.calls > 3) this.time.at(200, () => this.aim(left_ms / 2))
    })
  }
  /** A planned stop; in runs of stops one in four is of a leading node whose followers have crashed. */
  private stop(): void {
    const { venue, random, time } = this
    const is_alone = this.given.size.focus === 'stops' && random.below(4) === 0
    if (is_alone) venue.crashFollowers()
    time.at(is_alone ? random.below(300) : 0, () => venue.restart(is_alone))
  }
  private endAt(life: Life, at: Await): void {
    this.count('ends at an await', run.phase)
    this.say(`ends at ${at.name}`)
    if (life === this.life) this.kill()
    else this.venue.crashOf(life)
  }
  private hunt(ends: number, for_ms: number): Hunt {
    const { random } = this
    const end = (life: Life, at: Await) => this.endAt(life, at)
    return new Hunt(this.time, this.venue, { random, ends, for_ms, end })
  }
  private say(line: string): void {
    this.trace.push(`${this.time.now_ms} ${line}`)
  }
  private count(fault: string, kind: string): void {
    const { tally } = this.given
    const name = `${fault} | ${kind}`
    tally.set(name, (tally.get(name) ?? 0) + 1)
    this.say(name)
  }
  private breaks(law: string): void {
    this.say(`BROKEN ${law}; ${this.venue.status}`)
    this.broken.push(law)
  }
  private async until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      if (!(await this.time.step())) throw new Error('nothing is left to happen')
      if (this.venue.broken.length > 0) throw new Error(this.venue.broken.join())
      if (this.time.now_ms > LATEST_MS) throw new Error('the schedule does not end')
    }
  }

  private async prepare(): Promise<void> {
    const { path, seed } = this.given
    await this.until(() => this.venue.rests)
    const { world } = this.venue
    await this.time.wait(world.admit(this.account))
    const wallet = new Wallet(sha256(utf8(`seed ${seed}`)))
    const deposit = async (side: 'base' | 'quote', key_index: number, ...amounts: bigint[]) => {
      for (const amount of amounts) {
        await this.time.wait(world.deposit(wallet, { side, amount, key_index }))
        const mint = world.mints[side]
        this.deposited.set(mint, (this.deposited.get(mint) ?? 0n) + amount)
      }
    }
    await deposit('quote', 0, 120_000_000n)
    await deposit('quote', 1, 110_000_000n)
    await deposit('base', 0, 900_000_000n)
    if (this.random.below(2) === 0) await deposit('quote', 0, 70_000_000n)
    if (this.random.below(4) === 0) await deposit('base', 1, 300_000_000n, 1_000_000_000n)
    await this.time.wait(world.depositsShown())
    rmSync(path, { force: true })
    saveWallet(path, wallet)
    this.prepared = true
  }

  // The market.

  private slot(): void {
    this.time.at(SLOT_MS, () => this.slot())
    const { venue, calm } = this
    venue.world.slot(this.random, calm, venue.up)
    if (calm || !venue.up) return
    const broken = (law: string) => this.breaks(law)
    venue.world.market(this.random, broken, this.given.size.focus)
    const steps = this.given.size.hunted.start > 0 ? 3 : 1
    for (let at = 0; at < steps; at++) this.traffic.step(this.random, venue.world.marketLogin())
  }
  private second(): void {
    this.time.at(1_000, () => this.second())
    this.venue.tick()
  }

  // The failing call.

  request(kind: string): Fault | undefined {
    if (this.calm || this.random.below(4) > 0) return undefined
    let fault = this.random.pick(FAULTS)
    // A restart costs more than everything else of a schedule.
    if (/^(restart|crash)/.test(fault) && this.random.below(12) > 0) fault = 'before'
    if (kind === 'login' && (fault === 'draining' || fault === 'rate_limited')) fault = 'before'
    this.count(fault, kind)
    return fault
  }
  frame(): FrameFault | undefined {
    if (this.calm || this.random.below(12) > 0) return undefined
    const fault = this.random.pick(['lost', 'twice', 'gap', 'garbage', 'cut', 'ends'] as const)
    this.count(fault, 'event')
    return fault
  }
  left({ doing }: Context, kind: string, body: string): void {
    for (const name of namesOf(kind, JSON.parse(body))) {
      const before = this.bytes.get(name)
      // A call may first have to settle a request that an earlier one left open.
      if (!this.earlier.has(name)) doing.sent.add(`${kind} ${name}`)
      if (before !== undefined && before !== body) this.breaks(`two requests of one nonce: ${kind} ${name}`)
      this.bytes.set(name, body)
      this.changes++
    }
    const own = [...doing.sent].filter((sent) => sent.startsWith(`${doing.kind} `))
    if (own.length > 1) this.breaks(`one call became ${own.join(' and ')}`)
  }
  private mishap(): void {
    const ends = ['crash', 'restart', 'restart', 'slow'] as const
    const what = this.random.pick([
      ...(this.given.size.focus === 'ends' ? [...ends, ...ends, ...ends] : []),
      ...MISHAPS,
    ])
    const kinds = [...this.under_way].map(({ kind }) => kind)
    for (const kind of kinds.length > 0 ? kinds : ['nothing']) this.count(what, kind)
    if (what === 'kill') this.kill()
    if (what === 'full' || what === 'failing') {
      this.disk = what
      this.time.at(100 + this.random.below(600), () => {
        this.disk = 'well'
      })
    }
    if (what === 'full') this.venue.fill(this.random.below(1_500))
    if (what === 'ends in save') this.ends_in_calls = 1 + this.random.below(8)
    if (what === 'tls') this.venue.renewTls()
    if (what === 'token') this.venue.endTokens()
    if (what === 'close') this.close()
    if (what === 'crash') this.venue.crash()
    if (what === 'restart') this.venue.restart()
    if (what === 'slow') this.time.slow_ms = 60
  }
  meets(call: FileCall): FileTrouble | undefined {
    const context = this.time.current
    if (context === undefined) return undefined
    if (!context.life.alive) return 'ends before'
    if (this.ends_in_calls > 0 && --this.ends_in_calls === 0) {
      this.count(`ends in ${call}`, context.doing.kind)
      this.killed(context)
      return this.random.pick(['ends before', 'ends half', 'ends after'] as const)
    }
    const trouble = this.trouble(call)
    if (trouble !== undefined) this.count(`${trouble} ${call}`, context.doing.kind)
    return trouble
  }
  private trouble(call: FileCall): FileTrouble | undefined {
    if (this.disk === 'well' || call === 'remove') return undefined
    if (this.disk === 'failing') return this.random.below(3) === 0 ? 'EIO' : undefined
    if (call === 'open') return this.random.below(4) === 0 ? 'ENOSPC' : undefined
    return call === 'write' ? 'half' : undefined
  }
  killed({ life }: Context): void {
    if (life === this.life) this.kill()
  }
  /** SIGKILL: nothing of this process happens any more, and the kernel drops its lock. */
  private kill(): void {
    if (!this.life.alive) return
    this.life.crash()
    this.session = undefined
    this.under_way.clear()
    this.opening = false
    const { store } = this
    this.store = undefined
    this.time.at(1 + this.random.below(200), () => {
      store?.close?.()
      this.life = new Life()
      this.loads('a kill')
      this.reopen()
    })
  }
  private loads(after: string): void {
    try {
      if (loadWallet(this.given.path) === undefined) this.breaks(`no wallet after ${after}`)
    } catch (error) {
      this.breaks(`the wallet does not load after ${after}: ${error}`)
    }
  }

  // The trader.

  private inside<T>(kind: string, run: () => T): T {
    return this.time.inside({ life: this.life, side: 'client', doing: { kind, sent: new Set() } }, run)
  }
  private reopen(): void {
    if (this.session !== undefined || this.opening || !this.life.alive) return
    this.opening = true
    const { life } = this
    const opened = this.inside('open', async () => {
      const file = openWalletFile(this.given.path)
      this.store = file
      return Session.open({
        // Of several nodes, a session asks the others while one is late.
        url: this.venue.world.nodes > 1 ? ['https://venue.test', 'https://other.test'] : 'https://venue.test',
        policy: {} as never,
        wallet: file,
        patience_ms: 400,
        login: this.venue.world.loginOf(this.account),
        account_id: accountId(this.account),
        open_venue: () => this.venue.connect(),
        ended: (reason) => this.endedBy(life, reason),
      })
    })
    opened.then(
      (session) => {
        if (life !== this.life || !life.alive) return
        this.opening = false
        this.session = session
        this.say(`open, ${session.open_requests.length} requests`)
      },
      (error) => {
        if (life !== this.life || !life.alive) return
        this.opening = false
        this.say(`not open: ${named(error)}`)
        // The client logs in again after its leading node ended, or its token was revoked before the socket was open.
        const codes = ['outcome_unknown', 'token_revoked']
        const is_again = error instanceof VenueProblem && codes.includes(error.code)
        if (!isExpected(error) && !is_again) this.breaks(`a session does not open: ${named(error)}`)
        this.time.at(200, () => this.reopen())
      },
    )
  }
  private endedBy(life: Life, reason: unknown): void {
    if (life !== this.life || !life.alive) return
    this.say(`ended: ${named(reason)}`)
    if (!(reason instanceof EventsMissing)) this.breaks(`the session ended: ${named(reason)}`)
    this.time.at(1, () => this.close())
  }
  /** A clean end of the process. */
  private close(): void {
    const { session } = this
    if (session === undefined) return
    try {
      this.inside('close', () => session.close())
    } catch (error) {
      if (!(error instanceof Ended || error instanceof NotWritten)) this.breaks(`a close failed: ${error}`)
    }
    if (!this.life.alive) return
    this.life.end()
    this.session = undefined
    this.under_way.clear()
    this.store = undefined
    this.life = new Life()
    this.loads('a close')
    this.time.at(1 + this.random.below(300), () => this.reopen())
  }

  private begin(call: Call | undefined): void {
    const { session, life } = this
    if (session === undefined || call === undefined) return
    const doing: Doing = { kind: call.kind, sent: new Set() }
    this.under_way.add(doing)
    for (const { id } of session.open_requests) this.earlier.add(id)
    const over = (then: () => void) => {
      if (life !== this.life || !life.alive) return
      this.under_way.delete(doing)
      then()
    }
    this.time
      .inside({ life, side: 'client', doing }, () => call.run(session))
      .then(
        (outcome) => over(() => this.tells(call.kind, outcome)),
        (error) => over(() => this.fails(doing, error)),
      )
  }
  private tells(kind: string, { id, status, ...of }: Outcome): void {
    const why = 'problem' in of ? ` ${of.problem.code}` : 'cause' in of ? ` ${named(of.cause)}` : ''
    this.say(`${kind} is ${status}${why}`)
    const before = this.told.get(id)
    if (before !== undefined && before !== 'unknown' && status !== 'unknown' && before !== status)
      this.breaks(`${kind} was ${before} and is ${status}${why}`)
    if (status !== 'unknown' || before === undefined) this.told.set(id, status)
    this.changes++
    const at_venue = this.venue.applied.has(id)
    if (status === 'refused' && at_venue) this.breaks(`${kind} is refused${why}, and the venue applied it`)
  }
  private fails(doing: Doing, error: unknown): void {
    this.say(`${doing.kind} fails: ${named(error)}`)
    if (!isExpected(error)) this.breaks(`${doing.kind} fails: ${named(error)}`)
    const own = [...doing.sent].filter((sent) => sent.startsWith(`${doing.kind} `))
    if (error instanceof NotWritten && own.length > 0)
      this.breaks(`${doing.kind} says that nothing was sent, and ${own} was`)
  }

  /** Nothing fails any more: everything open is settled, every order is cancelled, and all of it is final. */
  private async windDown(): Promise<void> {
    for (const round of [1, 2]) {
      await this.until(() => this.session !== undefined)
      for (const { kind, id } of [...this.session!.open_requests]) {
        await this.one({ kind: 'settle', run: (of) => of.settle(id) })
        const left = this.session?.open_requests.find((one) => one.id === id)
        // In the first round an own order may be in the way.
        if (left !== undefined && round === 2) this.breaks(`a ${kind} stays unknown`)
      }
      await this.until(() => this.session !== undefined)
      if (this.session!.open_requests.length === 0 && isClosed(this.session)) break
      for (const key_index of [0, 1])
        await this.one({ kind: 'cancel_all', run: (of) => of.cancelAll(key_index) })
      // A cancel waits for the decision on a batch that is closed.
      const until_ms = this.time.now_ms + 10_000
      await this.until(() => isClosed(this.session) || this.time.now_ms > until_ms)
    }
    const from_ms = this.time.now_ms
    const rests = () => {
      if (this.session === undefined) return false
      const { orders, notes } = this.session.wallet.state
      return orders.every(({ open }) => !open) && notes.every(({ state }) => state !== 'pending')
    }
    await this.until(() => rests() || this.time.now_ms > from_ms + 60_000)
    if (!rests()) this.breaks('orders or notes stay pending')
    await this.until(() => this.venue.rests || this.time.now_ms > from_ms + 90_000)
    if (!this.venue.rests) this.breaks('venue and chain do not come to rest')
    this.broken.push(...this.venue.broken, ...this.venue.open.fatal.map((error) => `fatal: ${error}`))
    const last_ms = this.time.now_ms
    await this.until(() => this.time.now_ms > last_ms + 100)
  }
  private async one(call: Call): Promise<void> {
    await this.until(() => this.session !== undefined && this.under_way.size === 0)
    this.begin(call)
    await this.until(() => this.under_way.size === 0)
  }
  private async check(): Promise<void> {
    const { open } = this.venue
    const { path } = this.given
    const { session } = this
    if (session === undefined) return this.breaks('there is no session in the end')
    this.inside('close', () => session.close())
    this.life.end()
    const wallet = loadWallet(path)!
    if (JSON.stringify(wallet.state) !== JSON.stringify(session.wallet.state))
      this.breaks('the file is not the wallet')
    const [orders, events] = await this.time.wait(
      Promise.all([
        everyPage((page) => open.venue.orders(this.account, page)),
        everyPage((page) => open.venue.events(this.account, page)),
      ]),
    )
    const { world } = this.venue
    for (const one of differences(
      wallet,
      { facts: world.facts(), mints: world.mints },
      { orders, events, deposited: this.deposited },
    ))
      this.breaks(one)
    const placed = new Set(orders.map(({ order_id }) => order_id))
    for (const id of placed)
      if (this.told.get(id) === 'refused') this.breaks('an order that was refused lives')
    for (const [name, body] of this.bytes)
      if (this.told.get(name) === 'accepted' && /"order_id"/.test(body) && !placed.has(name))
        this.breaks('an order that was accepted does not exist')
    if (existsSync(`${path}.new`)) this.say('a part of a save is left')
  }
}
