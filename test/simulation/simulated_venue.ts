/** A venue in this process, its real routes and engine, on a chain moved by hand, and a network before it that fails. */
import { closeSync, rmSync } from 'node:fs'
import type { SessionVenue } from '../../client/session/live_venue'
import { EvidenceUnavailable } from '../../client/verify/collect/collect_evidence'
import type { Enclave } from '../../enclave/contract'
import type { Caller, Session, Venue } from '../../engine/venue'
import { encodeBase58 } from '../../protocol/base58'
import { STATEMENT_BODY } from '../../protocol/bodies/statements'
import { fromHex, toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { Attestation, Info } from '../../protocol/wire/public'
import { type App, createApp } from '../../server/edge/app'
import { openLog } from '../../server/edge/log'
import type { SocketData } from '../../server/sockets/upgrade'
import type { Random } from '../kit/random'
import { only } from '../kit/server/harness'
import { type Ledger, MemoryChain } from '../kit/venue/memory_chain'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { Life, run } from './awaits'
import { takeFiles } from './changes'
import { takeDatabases } from './databases'
import { copyFolder } from './image'
import { type FrameFault, SimulatedSocket } from './simulated_socket'
import type { Context, SimulatedTime } from './simulated_time'

/**
 * What a request meets. `before`: never arrives; `after`: arrives, and its answer is lost; `ghost`: arrives long after its
 * connection broke; `slow`: its answer does; `garbled`, `gateway`, `internal`: another answer than the venue's; codes: the
 * edge rejects it; `token`, `tls`, `restart`: the login, the TLS key or the epoch ends first; `ends`: the client is killed
 * when the request leaves, when it has arrived, or when its answer has.
 */
export const FAULTS = [
  ...['before', 'after', 'ghost', 'slow', 'garbled', 'gateway', 'internal'],
  ...['rate_limited', 'draining', 'token', 'tls', 'restart', 'restart after', 'crash', 'crash after'],
  ...['ends before', 'ends between', 'ends after'],
] as const
export type Fault = (typeof FAULTS)[number]

export type Weather = {
  request(kind: string): Fault | undefined
  frame(): FrameFault | undefined
  /** A signed request leaves the client. */
  left(context: Context, kind: string, body: string): void
  killed(context: Context): void
}

const KINDS: readonly [RegExp, string][] = [
  [/^POST \/orders\/cancel-all/, 'cancel_all'],
  [/^POST \/orders\/dead-man/, 'dead_man'],
  [/^POST \/orders$/, 'place'],
  [/^PUT \/orders/, 'modify'],
  [/^DELETE \/orders/, 'cancel'],
  [/^POST \/withdrawals/, 'withdraw'],
  [/^POST \/notes\/reshape/, 'reshape'],
  [/^POST \/auth\/token/, 'login'],
]
const kindOf = (method: string, path: string): string =>
  KINDS.find(([form]) => form.test(`${method} ${path}`))?.[1] ?? 'read'

/** What a request may do once: the ids and nonces in it. */
export function namesOf(kind: string, body: unknown): string[] {
  const of = Object(Array.isArray(body) ? body[0] : body) as Record<string, string>
  if (kind === 'place') return [of['order_id']!]
  if (kind === 'modify') return [(of['replacement'] as never as Record<string, string>)['order_id']!]
  if (kind === 'withdraw' || kind === 'reshape') return [`${of['trading_key']}#${of['nonce']}`]
  return [`${of['trading_key']}/${of['cancel_nonce']}`]
}

type Call = { path: string; init: RequestInit; kind: string; tls: number; context: Context }

/** Small, so that journals have several and copies cost little. */
const SEGMENT_BYTES = 262_144

/** Of a dead process nothing reaches the chain. */
const owners = new WeakMap<MemoryChain, Life | undefined>()
for (const name of ['readConfig', 'readMints', 'openEpoch', 'anchor', 'commit'] as const) {
  const real = MemoryChain.prototype[name] as (...args: unknown[]) => Promise<unknown>
  Object.defineProperty(MemoryChain.prototype, name, {
    value(this: MemoryChain, ...args: unknown[]) {
      if (!owners.has(this)) owners.set(this, run.venue)
      return owners.get(this)?.alive === false ? new Promise(() => undefined) : real.apply(this, args)
    },
  })
}

export class SimulatedVenue {
  readonly site = new TestSite()
  open!: TestVenue
  weather!: Weather
  random!: Random
  /** Number of the TLS key that the venue shows. */
  tls = 1
  up = false
  /** What a start found that must not be. */
  broken: string[] = []
  lives = 0
  private life = new Life()
  private app!: App
  private refuses: Fault | undefined
  private tokens = new Map<string, string>()
  private token = 0
  private readonly sockets = new Set<SimulatedSocket>()
  /** Ends of the connections of requests that wait for an answer. */
  private readonly waiting = new Set<() => void>()
  /** Names of the requests that the engine applied, by its own answers. */
  readonly applied = new Set<string>()
  /** A closed batch whose commit is withheld, and the slots until it is decided. */
  private withheld_slots = 0
  private settling = false
  constructor(
    readonly time: SimulatedTime,
    left?: { dir: string; ledger: Ledger },
  ) {
    this.site.segment_bytes = SEGMENT_BYTES
    if (left !== undefined) {
      rmSync(this.site.dir, { recursive: true })
      Object.assign(this.site, left)
    }
    this.site.monotonicMs = () => time.passed_ms
    this.site.unixMs = () => 1_700_000_000_000 + time.passed_ms
  }

  /** A process starts on the folder. */
  start(): void {
    const life = new Life()
    this.life = life
    run.venue = life
    run.phase = 'starts'
    this.lives++
    this.site.open().then(
      (open) => life.alive && this.serve(open),
      (error) => life.alive && this.broken.push(`the venue does not start: ${error?.stack}`),
    )
  }
  private serve(open: TestVenue): void {
    this.open = open
    // The decision of a batch comes from the queue; nothing waits for it.
    open.chain.decided = async () => undefined
    if (!open.chain.is_started) {
      this.broken.push('the venue starts and stays stopped')
      return
    }
    const clock = {
      unixMs: () => 1_700_000_000_000 + this.time.passed_ms,
      monotonicMs: () => this.time.passed_ms,
    }
    const log = openLog(() => undefined, clock.unixMs)
    const enclave = only<Enclave>('enclave', {
      identity: {
        app_id: 'aa'.repeat(20),
        instance_id: 'bb'.repeat(20),
        compose_hash: 'cc'.repeat(32),
        app_compose: '',
        kind: 'development',
        tee_pubkey: new Uint8Array(32),
      },
    })
    this.app = createApp({ venue: this.edge(), enclave, options: { version: '1', clock, log } })
    // Its ticks come in simulated time.
    this.app.close()
    this.up = true
    run.phase = 'serves'
    this.settling = true
    void this.catchUp().then(() => {
      this.settling = false
    })
  }
  /** What the relayer finds on the chain that the journal does not have: leaves, batches and payouts. */
  private async catchUp(): Promise<void> {
    const { chain, ledger, engine } = this.open
    const { settlement, leaves } = engine.state
    const { signature } = { signature: new Uint8Array(64).fill(3) }
    const stage = (batch_id: number, stage: 'submitted' | 'confirmed' | 'finalized') =>
      chain.outbox.recordStage({ batch_id, stage, signature, slot: ledger.slot })
    const landed = [...settlement.batches.keys()].filter((id) => id <= ledger.config.last_batch)
    for (const batch_id of landed) {
      await chain.outbox.waitForPayload(batch_id)
      await stage(batch_id, 'submitted')
      await stage(batch_id, 'confirmed')
    }
    if (leaves.size < ledger.notes.leaf_count) await chain.finalizeLeaves(leaves.size)
    for (const batch_id of landed) await stage(batch_id, 'finalized')
    const open = new Set(ledger.config.queue.entries.map(({ number }) => number))
    for (const { number } of chain.outbox.openPayouts()) {
      if (open.has(number) || number >= ledger.config.queue.next_number) continue
      for (const stage of ['confirmed', 'finalized'] as const)
        await chain.outbox.recordPayout({ number, stage, outcome: 'paid', signature, slot: ledger.slot })
    }
    await chain.payAll()
  }
  /** The engine behind logins that end with it, as real ones do, and limits that reject what the weather says. */
  private edge(): Venue {
    const venue = this.open.venue.parsed
    const refuse = (): void => {
      const code = this.refuses
      this.refuses = undefined
      if (code === 'rate_limited') throw new Refusal('rate_limited', { retry_after_ms: 40 })
      if (code === 'draining') throw new Refusal('draining')
    }
    return {
      ...venue,
      login: async (request) => {
        refuse()
        const answer = await venue.login(request)
        const access_token = `token-${++this.token}`
        this.tokens.set(access_token, answer.access_token)
        return { ...answer, access_token }
      },
      authenticate: (token): Session => {
        const known = this.tokens.get(token)
        if (known === undefined) throw new Refusal('token_expired')
        return { ...venue.authenticate(known), token_id: token }
      },
      takeLimit: (caller: Caller, cost: number) => {
        refuse()
        return venue.takeLimit(caller, cost)
      },
    }
  }
  /** A slot of the chain; now and then the commit of a closed batch waits, and then lands or cannot land any more. */
  slot(random: Random, calm: boolean): void {
    const { chain, ledger } = this.open
    const [withholds, settles] = [random.below(6) === 0, random.below(2) === 0]
    if (!this.up) {
      ledger.slot++
      return
    }
    if (this.withheld_slots > 0) {
      this.withheld_slots = calm ? 0 : this.withheld_slots - 1
      if (this.withheld_slots === 0) this.decide(random.below(4) > 0)
    } else if (ledger.withheld && this.open.engine.state.closed !== undefined) {
      this.withheld_slots = 1 + random.below(4)
    } else if (!calm && withholds) ledger.withheld = true
    else if (ledger.withheld && calm) ledger.withheld = false
    void chain.tick()
    if (ledger.withheld || this.isSettled || !settles || this.settling) return
    this.settling = true
    void chain.settleNext().then(() => {
      this.settling = false
    })
  }
  private decide(lands: boolean): void {
    const { chain, ledger } = this.open
    this.withheld_slots = 0
    if (!ledger.withheld) return
    ledger.withheld = false
    if (chain.sent === undefined || this.open.engine.state.closed === undefined) return
    if (lands) chain.landCommit()
    else chain.voidCommit()
  }
  /** Everything that was matched or paid is on the chain. */
  get isSettled(): boolean {
    return this.open.engine.state.settlement.last_batch === this.open.ledger.config.last_batch
  }
  /** Nothing is under way between venue and chain. */
  get rests(): boolean {
    return this.up && !this.settling && this.isSettled && this.open.engine.state.closed === undefined
  }

  private disconnect(): void {
    this.up = false
    this.tokens.clear()
    for (const socket of [...this.sockets]) socket.cut()
  }
  /** A clean stop, and the next epoch. */
  restart(): void {
    if (!this.up) return
    const { life } = this
    this.decide(true)
    this.disconnect()
    run.phase = 'stops'
    void this.open.close().then(() => {
      if (!life.alive) return
      this.end()
      this.start()
    })
  }
  /** The process ends here; the next one starts on its folder as it is now. */
  crash(): void {
    if (!this.life.alive) return
    const { site, time } = this
    const [before, after] = [site.dir, `${site.dir.replace(/-life\d+$/, '')}-life${this.lives}`]
    copyFolder(before, after)
    site.dir = after
    this.end()
    this.disconnect()
    const [databases, files] = [takeDatabases(), takeFiles()]
    run.phase = 'down'
    time.at(0, () => {
      for (const database of databases) database.close()
      for (const file of files) closeSync(file)
      rmSync(before, { recursive: true, force: true })
    })
    time.at(1 + this.random.below(400), () => this.start())
  }
  private end(): void {
    if (this.up || run.phase === 'stops')
      this.broken.push(...this.open.fatal.map((error) => `the venue stopped itself: ${error}`))
    this.life.alive = false
    this.settling = false
    this.withheld_slots = 0
    for (const lose of this.waiting) lose()
    this.waiting.clear()
    const { ledger } = this.site
    const { sent } = this.open?.chain ?? {}
    // A commit that was on its way may land.
    if (ledger.withheld && sent !== undefined && this.random.below(2) === 0) this.open.chain.landCommit()
    ledger.withheld = false
  }
  /** Another TLS key: every connection ends, and the pin of the old key opens no other. */
  renewTls(): void {
    this.tls++
    for (const socket of [...this.sockets]) socket.cut()
  }
  endTokens(): void {
    this.tokens.clear()
    for (const socket of [...this.sockets]) socket.cut()
  }
  tick(): void {
    this.app.sockets.tick()
  }
  /** Without a stop: its folder goes with it. */
  remove(): void {
    this.life.alive = false
    for (const database of takeDatabases()) database.close()
    for (const file of takeFiles()) closeSync(file)
    rmSync(this.site.dir, { recursive: true, force: true })
  }

  /** Verifies nothing; everything else is as after `connect`. Runs in a client. */
  async connect(): Promise<SessionVenue> {
    const { tls } = this
    const transport = this.transport(tls)
    try {
      const info = (await (await transport.fetch('/info')).json()) as Info
      return { ...transport, base_url: transport.base_url, info, attestation: this.attestation(info) }
    } catch (cause) {
      throw new EvidenceUnavailable('the venue did not answer', { cause })
    }
  }
  private attestation({ venue, epoch }: Info): Attestation {
    const { statement_key } = this.site.keys
    const body = { venue: fromHex(venue, 32)!, statement_key, epoch: BigInt(epoch) }
    const binding = {
      certificate: toHex(STATEMENT_BODY.encode(body)),
      statement_key: encodeBase58(statement_key),
    }
    return { binding } as never
  }
  private transport(tls: number) {
    return {
      base_url: 'https://venue.test',
      fetch: (path: string, init: RequestInit = {}) => this.fetch(tls, path, init),
      webSocket: (path: string) => this.webSocket(tls, path) as unknown as WebSocket,
    }
  }
  private latency(): number {
    return 1 + this.random.below(30)
  }

  private fetch(tls: number, path: string, init: RequestInit): Promise<Response> {
    const context = this.time.current!
    const kind = kindOf(init.method ?? 'GET', path)
    if (kind !== 'read' && kind !== 'login') this.weather.left(context, kind, String(init.body))
    const fault = this.weather.request(kind)
    return new Promise((resolve, reject) => {
      const call = { path, init, kind, tls, context }
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
    if (!this.up || call.tls !== this.tls) {
      lost()
      return
    }
    if (fault === 'gateway') {
      answer(this.latency(), 502, '<html>bad gateway</html>')
      return
    }
    if (fault === 'rate_limited' || fault === 'draining') this.refuses = fault
    const headers = call.init.headers as Record<string, string>
    const { method = 'GET', body } = call.init
    const request = new Request(`http://venue.test${call.path}`, {
      method,
      headers: { ...headers, host: 'venue.test' },
      ...(body === undefined ? {} : { body: body as string }),
    })
    const { life } = this
    this.waiting.add(lost)
    const response = Promise.resolve(this.app.fetch(request))
    this.refuses = undefined
    void response.then(async (of) => {
      const text = await of.text()
      if (!life.alive) return
      this.waiting.delete(lost)
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

  private webSocket(tls: number, path: string): SimulatedSocket {
    const socket = new SimulatedSocket(
      this.time,
      () => this.latency(),
      () => this.weather.frame(),
    )
    socket.killed = (context) => this.weather.killed(context)
    this.sockets.add(socket)
    socket.over = () => this.sockets.delete(socket)
    this.time.at(this.latency(), async () => {
      const { life } = this
      if (!this.up || tls !== this.tls || socket.closed) return socket.cut()
      const headers = { upgrade: 'websocket', connection: 'upgrade', host: 'venue.test' }
      const upgrade = (_: Request, { data }: { data: SocketData }) => socket.opened(data, life)
      await this.app.fetch(new Request(`http://venue.test${path}`, { headers }), { upgrade })
      if (!socket.is_open) socket.cut()
    })
    return socket
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
