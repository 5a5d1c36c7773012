/** A venue in this process, its real routes and engine, in a world, and a network before it that fails. */
import { closeSync, rmSync } from 'node:fs'
import type { SessionVenue } from '../../client/session/live_venue'
import { EvidenceUnavailable } from '../../client/verify/collect/collect_evidence'
import type { Caller, NodeVenue, Session } from '../../engine/venue'
import { encodeBase58 } from '../../protocol/base58'
import { STATEMENT_BODY } from '../../protocol/bodies/statements'
import { fromHex, toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { Attestation, Info, Leader } from '../../protocol/wire/public'
import type { App } from '../../server/edge/app'
import type { SocketData } from '../../server/sockets/upgrade'
import type { Random } from '../kit/random'
import { Life, run } from './awaits'
import { kindOf, namesOf } from './calls'
import { space, takeFiles } from './changes'
import { takeDatabases } from './databases'
import { copyFolder } from './image'
import { SimulatedSocket } from './simulated_socket'
import { type Context, inVenue, type SimulatedTime } from './simulated_time'
import { spoil } from './spoiled_files'
import type { Fault, Weather } from './weather'
import { frontHost, linkHost, operatorOf, simulatedApp, simulatedEnclave } from './worlds/fronts'
import { listening } from './worlds/simulated_listen'
import type { Hooks, Opened, World } from './worlds/world'

/** The TLS key that the client knows, and the node. */
type To = { tls: number; at: number }
type Call = { path: string; init: RequestInit; kind: string; to: To; context: Context }

/** A process of the venue, on the folder of this number. */
type Process = {
  readonly at: number
  readonly life: Life
  /** Once it leads. */
  open: Opened | undefined
  /** Of a venue that listens nowhere. */
  app: App | undefined
  operator: Pick<App, 'fetch'> | undefined
  /** Of a node of a cluster, from when it follows: ends it in order. */
  stop: (() => Promise<void>) | undefined
  /** Its disk was full while it started. */
  was_full: boolean
  /** Ends of the connections of requests that wait for an answer. */
  readonly waiting: Set<() => void>
}

export class SimulatedVenue {
  weather!: Weather
  random!: Random
  /** Number of the TLS key that the venue shows. */
  tls = 1
  /** Forbidden findings of a start. */
  broken: string[] = []
  lives = 0
  private readonly processes: Process[] = []
  /** That serves, or did last. */
  private leading: Process | undefined
  /** While it neither starts nor stops. */
  private serves = false
  private refuses: Fault | undefined
  private tokens = new Map<string, string>()
  private token = 0
  private readonly sockets = new Map<SimulatedSocket, Process | undefined>()
  /** Folder with read models of another course of this venue. */
  others: string | undefined
  /** Names of the requests that the engine applied, by its own answers. */
  readonly applied = new Set<string>()
  constructor(
    readonly time: SimulatedTime,
    readonly world: World,
  ) {}

  get open(): Opened {
    return this.leading!.open!
  }
  /** For the trace of a broken run. */
  get status(): string {
    const { open } = this.leading ?? {}
    return open === undefined ? 'none led' : JSON.stringify([open.venue.status(), open.engine.chain.health()])
  }
  get up(): boolean {
    return this.serves && this.leading?.life.alive === true
  }

  /** Its processes start on their folders. */
  start(): void {
    for (let at = 0; at < this.world.nodes; at++) this.startOne(at)
  }
  private startOne(at: number): void {
    const process: Process = {
      ...{ at, life: new Life(), waiting: new Set<() => void>() },
      ...{ open: undefined, app: undefined, operator: undefined, stop: undefined, was_full: false },
    }
    const { life } = process
    this.processes[at] = process
    Object.assign(space, { isFull: false, fills: undefined })
    if (!this.world.is_aged) spoil(this.world.dirOf(at), this.random, this.others)
    if (!this.up) {
      run.venue = life
      run.phase = 'starts'
    }
    this.lives++
    const hooks: Hooks = {
      exits: () => this.crash(process),
      edge: (venue) => this.edge(venue),
      drains: () => this.restart(),
      follows: (stop) => {
        process.stop = stop
      },
    }
    this.inside(life, () => this.world.open(at, hooks)).then(
      (open) => life.alive && this.inside(life, () => this.serve(process, open)),
      (error) => {
        if (!life.alive) return
        const is_full =
          process.was_full && /^HistoryStalled|history database cannot be made/.test(String(error))
        if (is_full || this.world.isExpected(error, life)) this.crash(process)
        else this.broken.push(`the venue does not start: ${error?.stack}`)
      },
    )
  }
  private inside<T>(life: Life, happen: () => T): T {
    return this.time.inside(inVenue(life), happen)
  }
  private serve(process: Process, open: Opened): void {
    process.open = open
    this.leading = process
    run.venue = process.life
    const wrong = this.world.served(open)
    if (wrong !== undefined) {
      this.broken.push(wrong)
      return
    }
    const clock = {
      unixMs: () => 1_700_000_000_000 + Math.floor(this.time.passed_ms),
      monotonicMs: () => Math.floor(this.time.passed_ms),
    }
    const venue = open.venue.parsed
    if (this.listens(frontHost(process.at), process.life) === undefined) {
      process.app = simulatedApp(this.edge(venue), simulatedEnclave(new Uint8Array(32)), clock, {})
      const venue_id = fromHex(venue.identity().venue, 32)!
      process.operator = operatorOf(venue_id, clock, () => this.restart())({ venue, app: process.app })
    }
    this.serves = true
    run.phase = 'serves'
  }
  /** The engine behind logins that end with it, as real ones do, and limits that reject as the weather says. */
  private edge<T extends NodeVenue>(venue: T): T {
    const refuse = (): void => {
      const code = this.refuses
      this.refuses = undefined
      if (code === 'rate_limited') throw new Refusal('rate_limited', { retry_after_ms: 40 })
      if (code === 'draining') throw new Refusal('draining')
    }
    const { keeps_tokens } = this.world
    const own: Partial<NodeVenue> = {
      login: async (request) => {
        refuse()
        const answer = await venue.login(request)
        const access_token = keeps_tokens ? answer.access_token : `token-${++this.token}`
        this.tokens.set(access_token, answer.access_token)
        return { ...answer, access_token }
      },
      authenticate: (token): Session => {
        if (keeps_tokens) return venue.authenticate(token)
        const known = this.tokens.get(token)
        if (known === undefined) throw new Refusal('token_expired')
        return { ...venue.authenticate(known), token_id: token }
      },
      revoke: async (session) =>
        keeps_tokens ? venue.revoke(session) : void this.tokens.delete(session.token_id),
      takeLimit: (caller: Caller, cost: number) => {
        refuse()
        return venue.takeLimit(caller, cost)
      },
    }
    // A node that follows has another venue behind the same face once it leads.
    return new Proxy(venue, { get: (of, name) => own[name as 'login'] ?? of[name as 'login'] })
  }
  /** A request of others than the trader, at any node that serves; undefined where none answers. */
  async ask(of: 'app' | 'operator', request: Request): Promise<Response | undefined> {
    const serving = this.processes.flatMap(({ at }) => this.appOf(at) ?? [])
    const at = this.random.pickIfAny(serving)
    if (at === undefined) return undefined
    const { life, operator } = at.process
    const to = of === 'app' ? at.app : (operator ?? this.listens(linkHost(at.process.at), life)!)
    const answer = await this.inside(life, () => to.fetch(request))
    return life.alive ? answer : undefined
  }
  /** Of an account of the market, at any node that serves. */
  socket(headers: Record<string, string>, path: string): SimulatedSocket {
    const serving = this.processes.filter(({ at }) => this.appOf(at) !== undefined)
    return this.webSocket({ tls: this.tls, at: this.random.pickIfAny(serving)?.at ?? 0 }, path, headers)
  }
  /** Where clients are served: by the node that leads, and by those that follow and may. */
  private appOf(at: number): { app: Pick<App, 'fetch'>; process: Process } | undefined {
    const process = this.processes[at]
    if (process?.life.alive !== true || (process === this.leading && !this.serves)) return undefined
    const app = process.app ?? this.listens(frontHost(at), process.life)
    return app && { app, process }
  }
  private listens(host: string, life: Life): Pick<App, 'fetch'> | undefined {
    const at = listening.get(host)
    return at?.life === life ? at.app : undefined
  }
  /** Nothing is under way between venue and chain. */
  get rests(): boolean {
    return this.up && this.world.rests
  }

  private disconnect(process: Process): void {
    if (process === this.leading) {
      this.serves = false
      if (!this.world.keeps_tokens) this.tokens.clear()
    }
    for (const [socket, of] of [...this.sockets]) if (of === process) socket.cut()
  }
  /** A clean stop, and the next epoch; unless `leads`, half of the stops in a cluster are of a follower. */
  restart(leads = false): void {
    if (!this.up) return
    const follows = this.processes.filter(({ life, open, stop }) => life.alive && !open && stop)
    const follower = !leads && this.random.below(2) === 0 ? this.random.pickIfAny(follows) : undefined
    this.stopOne(follower ?? this.leading!)
  }
  private stopOne(process: Process): void {
    const { at, life, open, stop } = process
    process.stop = undefined
    if (open !== undefined) {
      this.world.stops()
      this.disconnect(process)
      run.phase = 'stops'
    }
    const stopped = () => (open === undefined ? stop!() : this.world.stop(open, this.random))
    void this.inside(life, stopped).then(() => {
      if (!life.alive) return
      // A node that followed may lead now.
      this.disconnect(process)
      this.end(process)
      release(life)
      this.startOne(at)
    })
  }
  /** The process, any one of the cluster unless it is named, ends here; the next one starts on its folder as it is now. */
  crash(process: Process | undefined = this.anyOne()): void {
    if (process?.life.alive !== true) return
    const { world, time } = this
    const { at, life } = process
    const before = world.dirOf(at)
    const after = `${before.replace(/-life\d+$/, '')}-life${this.lives}`
    copyFolder(before, after)
    world.moveTo(at, after)
    const was_leading = process === this.leading
    life.crash()
    this.end(process)
    this.disconnect(process)
    if (was_leading) run.phase = 'down'
    time.at(0, () => {
      release(life)
      rmSync(before, { recursive: true, force: true })
    })
    // Of a cluster another node may take over meanwhile.
    const away_ms = 1 + this.random.below(world.nodes === 1 ? 400 : 4_000)
    time.at(away_ms, () => this.startOne(at))
  }
  crashFollowers(): void {
    for (const process of [...this.processes]) if (process !== this.leading) this.crash(process)
  }
  /** The process that this life, or thread, is of. */
  crashOf(life: Life): void {
    const process = this.processes.find((one) => life.isOf(one.life))
    if (process !== undefined) this.crash(process)
  }
  private anyOne(): Process | undefined {
    const leads = this.processes.length === 1 || this.random.below(2) === 0
    const alive = this.processes.filter(({ life }) => life.alive)
    return leads && this.leading?.life.alive === true ? this.leading : this.random.pickIfAny(alive)
  }
  private end(process: Process): void {
    this.broken.push(...(process.open?.fatal ?? []).map((error) => `the venue stopped itself: ${error}`))
    process.life.end()
    this.world.gone(process.life)
    for (const lose of process.waiting) lose()
    process.waiting.clear()
    if (process === this.leading || this.leading === undefined) this.world.ended(this.random)
  }
  /** Another TLS key: every connection ends, and the pin of the old key opens no other. */
  renewTls(): void {
    this.tls++
    for (const socket of [...this.sockets.keys()]) socket.cut()
  }
  /** Its disk takes nothing more for a while, from now or the next snapshot on, unless a process starts meanwhile. */
  fill(for_ms: number): void {
    const fills = () => {
      space.fills = undefined
      space.isFull = this.up
      if (this.up) for (const process of this.processes) process.was_full ||= process.open === undefined
      this.time.at(for_ms, () => {
        space.isFull = false
      })
    }
    if (this.random.below(2) === 0) fills()
    else space.fills = fills
  }
  endTokens(): void {
    if (this.world.keeps_tokens && this.up)
      for (const token of this.tokens.values())
        this.inside(this.leading!.life, () => void revoked(this.open.venue, token))
    this.tokens.clear()
    for (const socket of [...this.sockets.keys()]) socket.cut()
  }
  tick(): void {
    for (const { at } of this.processes) {
      const process = this.appOf(at)?.process
      if (process?.app !== undefined) this.inside(process.life, () => process.app!.sockets.tick())
    }
  }
  /** Without a stop: its folder goes with it. */
  remove(): void {
    for (const { at, life } of this.processes) {
      life.end()
      release(life)
      rmSync(this.world.dirOf(at), { recursive: true, force: true })
    }
  }

  /** Verifies nothing; everything else is as after `connect`. Runs in a client. */
  async connect(): Promise<SessionVenue> {
    const { tls } = this
    const serving = this.processes.filter(({ at }) => this.appOf(at) !== undefined)
    const transport = this.transport(tls, this.random.pickIfAny(serving)?.at ?? 0)
    const read = async (path: string) => {
      const answer = await transport.fetch(path)
      if (!answer.ok) throw new TypeError(`${path} answers ${answer.status}`)
      return answer.json()
    }
    try {
      const own = (await read('/info')) as Info
      if (own.epoch !== 0) {
        const attestation = this.attestation(own) ?? ((await read('/attestation')) as Attestation)
        return { ...transport, info: own, attestation }
      }
      const leader = (await read('/attestation/leader')) as Leader
      const attestation = this.attestation(leader.info) ?? leader.attestation
      const evidence = { info: own, leader: { ...leader, attestation, missing: {} } } as never
      return { ...transport, info: leader.info, attestation, evidence }
    } catch (cause) {
      throw new EvidenceUnavailable('the venue did not answer', { cause })
    }
  }
  private attestation({ venue, epoch }: Info): Attestation | undefined {
    const { statement_key } = this.world
    if (statement_key === undefined) return undefined
    const body = { venue: fromHex(venue, 32)!, statement_key, epoch: BigInt(epoch) }
    const binding = {
      certificate: toHex(STATEMENT_BODY.encode(body)),
      statement_key: encodeBase58(statement_key),
    }
    return { binding } as never
  }
  private transport(tls: number, at: number) {
    return {
      base_url: 'https://venue.test',
      fetch: (path: string, init: RequestInit = {}) => this.fetch({ tls, at }, path, init),
      webSocket: (path: string, judged: Record<string, string> = {}) =>
        this.webSocket({ tls, at }, path, judged) as unknown as WebSocket,
    }
  }
  private latency(): number {
    return 1 + this.random.below(30)
  }

  private fetch(to: To, path: string, init: RequestInit): Promise<Response> {
    const context = this.time.current!
    const kind = kindOf(init.method ?? 'GET', path)
    if (kind !== 'read' && kind !== 'login') this.weather.left(context, kind, String(init.body))
    const fault = this.weather.request(kind)
    return new Promise((resolve, reject) => {
      const call = { path, init, kind, to, context }
      const answer = (delay_ms: number, status: number, text: string) =>
        this.time.at(
          delay_ms,
          () => {
            if (fault === 'ends after') this.time.at(0, () => this.weather.killed(context))
            resolve(new Response(text, { status, headers: { 'content-type': 'application/json' } }))
          },
          context,
        )
      const lose = () => this.time.at(this.latency(), () => reject(new TypeError('connection lost')), context)
      if (fault === 'ends before') return this.weather.killed(context)
      if (fault === 'before' || fault === 'ghost') lose()
      if (fault === 'before') return
      const delay_ms = fault === 'ghost' ? 50 + this.random.below(600) : this.latency()
      this.time.at(delay_ms, () => this.arrive(call, fault, answer, lose))
    })
  }
  private arrive(
    call: Call,
    fault: Fault | undefined,
    answer: (delay_ms: number, status: number, text: string) => void,
    lose: () => void,
  ): void {
    if (fault === 'token') this.endTokens()
    if (fault === 'tls') this.renewTls()
    if (fault === 'restart') this.restart()
    if (fault === 'crash') this.crash()
    const lost = fault === 'ghost' ? () => undefined : lose
    const serving = this.appOf(call.to.at)
    if (serving === undefined || call.to.tls !== this.tls) {
      lost()
      return
    }
    if (fault === 'gateway') {
      answer(this.latency(), 502, '<html>bad gateway</html>')
      return
    }
    if (fault === 'rate_limited' || fault === 'draining') this.refuses = fault
    const headers = Object.fromEntries(new Headers(call.init.headers))
    const { method = 'GET', body } = call.init
    const request = new Request(`http://venue.test${call.path}`, {
      method,
      headers: { ...headers, host: 'venue.test' },
      ...(body === undefined ? {} : { body: body as string }),
    })
    const { app, process } = serving
    const { life, waiting } = process
    waiting.add(lost)
    const response = this.inside(life, () => Promise.resolve(app.fetch(request)))
    this.refuses = undefined
    void response.then(async (of) => {
      const text = await of.text()
      if (!life.alive) return
      waiting.delete(lost)
      if (of.ok && call.kind !== 'read' && call.kind !== 'login')
        for (const name of namesOf(call.kind, JSON.parse(String(body)))) this.applied.add(name)
      if (fault === 'after' || fault === 'restart after' || fault === 'crash after') lost()
      else if (fault === 'ends between') this.weather.killed(call.context)
      else if (fault === 'garbled') answer(this.latency(), of.status, text.slice(0, text.length / 2))
      else if (fault === 'internal') answer(this.latency(), 500, BROKEN)
      else if (fault !== 'ghost')
        answer(fault === 'slow' ? 300 + this.random.below(500) : this.latency(), of.status, text)
      if (fault === 'restart after') this.restart()
      if (fault === 'crash after') this.crash()
    })
  }

  private webSocket({ tls, at }: To, path: string, judged: Record<string, string>): SimulatedSocket {
    const socket = new SimulatedSocket(
      this.time,
      () => this.latency(),
      () => this.weather.frame(),
    )
    socket.killed = (context) => this.weather.killed(context)
    this.sockets.set(socket, undefined)
    socket.over = () => this.sockets.delete(socket)
    this.time.at(this.latency(), async () => {
      const serving = this.appOf(at)
      if (serving === undefined || tls !== this.tls || socket.closed) return socket.cut()
      const { app, process } = serving
      const { life } = process
      this.sockets.set(socket, process)
      const headers = { ...judged, upgrade: 'websocket', connection: 'upgrade', host: 'venue.test' }
      const upgrade = (_: Request, { data }: { data: SocketData }) => socket.opened(data, life)
      const request = new Request(`http://venue.test${path}`, { headers })
      await this.inside(life, () => app.fetch(request, { upgrade }))
      if (!socket.is_open) socket.cut()
    })
    return socket
  }
}

/** The system closes the files of a process that ended. */
function release(life: Life): void {
  for (const database of takeDatabases(life)) database.close()
  for (const file of takeFiles(life)) closeSync(file)
}

/** One that has ended already, or that a venue which stops does not end, is no matter. */
async function revoked({ authenticate, revoke }: Opened['venue'], token: string): Promise<void> {
  try {
    await revoke(authenticate(token))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
  }
}

const BROKEN = JSON.stringify({
  type: 'about:blank',
  title: 'internal',
  status: 500,
  detail: '',
  message: '',
  code: 'internal',
  applied: 'unknown',
  request_id: 'x',
})
