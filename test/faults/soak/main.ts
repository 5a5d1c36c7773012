/** `bun run soak`: the real process under steady load with kills and restarts, and a chart of its memory and latency. */

import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { type Child, IMAGE } from '../../../bench/kit/child_process'
import { plotSvg } from '../../../bench/kit/plot'
import { VenueClient, VenueProblem } from '../../../client/api/venue_client'
import { openChainAccess } from '../../../client/chain/chain_access'
import { airdrop, deposit, mintTo } from '../../../client/chain/deposit'
import { readProofs, requestExit } from '../../../client/chain/exit_note'
import { ownAccount, readExitRequest, tokenBalance } from '../../../client/chain/read_vault'
import { Options, runCommand, UsageFault } from '../../../client/cli/command'
import { ProofUnavailable } from '../../../client/exit/prepare_exit'
import { markSpent, nullifierOfNote } from '../../../client/wallet/absorb'
import { decodeBase58 } from '../../../protocol/base58'
import type { Fill } from '../../../protocol/wire/trading'
import { Random } from '../../kit/random'
import { inOwnNetwork } from '../../kit/server/steady_load'
import { testCredential } from '../../kit/venue/test_login'
import { type CrashSite, crashRound, lookAt, notesPerMint, openCrashSite } from '../kit/crash_rounds'
import { type LoadTrader, nextCommand, onceServed, windDown } from '../kit/load_trader'
import { DEPOSITED } from '../kit/open_trader'
import { residentBytes, venueTransport } from '../kit/venue_process'
import { type BackgroundSample, startBackground } from './background'
import { isJudged, type Sample as Judged, judge } from './verdict'

const PACE = new URL('./pace.ts', import.meta.url).pathname
/** As `compose.yaml` sets it: without it a renewal resets connections in the queue of the old listener (SECURITY.md). */
const MIGRATES = '/proc/sys/net/ipv4/tcp_migrate_req'
const FEE_LAMPORTS = 5_000_000_000n
const POLL_MS = 100
const SLOT_MS = 400
/** A busy machine is late. */
const EXIT_MS_MAX = 300_000
/** Smaller notes cost more to move than they hold. */
const EXITED_MIN = 100_000_000n
/** Each of the traders replaces its credential before its token ends by itself, after 15 minutes. */
const ROTATE_MINUTES = 3
const CLOSED_MS_MAX = 5_000
const WARM_MS = 10_000
const FULL_MS = 20_000
const FAULTS_SHOWN_MAX = 20

/** Times of cancels and modifies are apart: of a member of a closed batch they are answered by its match, two slots later. */
type Sample = Judged & {
  /** Delay of the load's own process, which its latencies do not contain, and processes that waited for a core. */
  load_late_p99_ms: number
  machine_load: number
  disk_mb: number
  p50_ms: number
  at_once_p99_ms: number
  deferrable_p99_ms: number
  commands: number
}

const share = (sorted: readonly number[], of: number) => sorted[Math.floor(of * (sorted.length - 1))] ?? 0

class Soak {
  readonly samples: Sample[] = []
  /** Everything that did not hold. */
  readonly faults: string[] = []
  exits = 0
  kills = 0
  credentials = 0
  certificates = 0
  /** Of the background, without a kill: a renewed certificate ends connections that are kept alive. */
  reconnects = 0
  /** Minutes in which a command of an account got no answer in time. */
  unanswered = 0
  readonly #exited = new Map<string, bigint>()
  readonly #deposited = new Map<string, bigint>()
  /** Keys whose note is leaving: they send nothing. */
  readonly #leaving = new Set<string>()
  #began_ms = performance.now()
  /** Since the background's last sample. */
  #sampled_ms = performance.now()
  /** Commands of an account without an answer. */
  readonly #under_way = new Map<LoadTrader, number>()
  readonly #took_ms: { at_once: number[]; deferrable: number[] } = { at_once: [], deferrable: [] }

  private constructor(
    readonly site: CrashSite,
    readonly random: Random,
    readonly per_second: number,
    readonly background: { child: Child; traders: LoadTrader[] },
    /** Orders of the background per second. */
    readonly load: number,
  ) {}

  /** @param load orders of the background per second; 0 for half of the rate at full speed */
  static async open(seed: number, per_second: number, load: number): Promise<Soak> {
    const site = await openCrashSite(seed, { slot_ms: SLOT_MS, preloaded: [PACE], settings: IMAGE })
    const background = await startBackground(site.venue)
    const { child } = background
    await child.ask('resume', site.venue.facts)
    if (load === 0) {
      await child.ask('pace', 0)
      await Bun.sleep(WARM_MS)
      await child.ask('sample')
      await Bun.sleep(FULL_MS)
      const { orders, faults } = await child.ask<BackgroundSample>('sample')
      if (faults.length > 0) throw new Error(faults.slice(0, FAULTS_SHOWN_MAX).join('\n'))
      const full = (orders * 1_000) / FULL_MS
      load = Math.floor(full / 2)
      console.log(
        `at full speed ${full.toFixed(0)} orders a second are placed and cancelled, half is ${load}`,
      )
    }
    await child.ask('pace', load)
    const soak = new Soak(site, new Random(seed), per_second, background, load)
    await soak.#sampleLoad()
    soak.#began_ms = performance.now()
    return soak
  }

  get minutes(): number {
    return (performance.now() - this.#began_ms) / 60_000
  }

  /** Steady load for `seconds`, an exit and a deposit under it, and a sample at its end. */
  async steady(seconds: number): Promise<void> {
    const end_ms = performance.now() + seconds * 1_000
    const goesOn = () => performance.now() < end_ms
    const { at_once, deferrable } = this.#took_ms
    for (const each of [at_once, deferrable]) each.length = 0
    const { traders } = this.site
    const workers = traders.flatMap((trader) =>
      Array.from({ length: trader.keys }, (_, key_index) => this.#trade(trader, key_index, goesOn)),
    )
    const late = (what: string) => (cause: Error) => void this.faults.push(`${what}: ${cause.message}`)
    const leaving = this.#exit()
      .catch(late('an exit'))
      .then(() => this.#rotateCredential())
      .catch(late('a credential'))
    await Promise.all(workers)
    await leaving
    await this.#lookAtCertificate()
    for (const trader of traders) {
      if (!trader.sent.some(({ fate }) => fate === 'unknown')) continue
      this.unanswered += 1
      trader.close()
      this.faults.push(...(await lookAt(this.site, trader, false)))
    }
    for (const { faults, name } of traders)
      this.faults.push(...faults.splice(0).map((fault) => `${name}: ${fault}`))
    for (const { streams, name } of traders)
      for (const stream of streams) {
        if (stream.lost > 0) this.faults.push(`${name}: /ws/${stream.stream} was closed ${stream.lost} times`)
        stream.lost = 0
      }
    const load = await this.#sampleLoad()
    for (const each of [at_once, deferrable]) each.sort((a, b) => a - b)
    this.samples.push({
      minute: this.minutes,
      kills: this.kills,
      resident_mb: (await residentBytes(this.site.venue)) / 2 ** 20,
      descriptors: readdirSync(`/proc/${this.site.venue.pid}/fd`).length,
      disk_mb: diskBytes(this.site.venue.data_dir) / 2 ** 20,
      ...load,
      machine_load: loadavg()[0]!,
      p50_ms: share(at_once, 0.5),
      at_once_p99_ms: share(at_once, 0.99),
      deferrable_p99_ms: share(deferrable, 0.99),
      commands: at_once.length + deferrable.length,
    })
  }

  async kill(round: number): Promise<void> {
    this.kills += 1
    this.faults.push(...(await crashRound(this.site, round)))
    for (const { streams } of this.site.traders) for (const stream of streams) stream.lost = 0
    await this.background.child.ask('resume', this.site.venue.facts)
    await this.#sampleLoad()
  }

  async #sampleLoad(): Promise<
    Pick<Sample, 'load_per_s' | 'load_p50_ms' | 'load_p99_ms' | 'load_late_p99_ms'>
  > {
    const { child } = this.background
    const sample = await child.ask<BackgroundSample>('sample')
    const { orders, p50_ms, p99_ms, late_p99_ms, faults, reconnects } = sample
    this.faults.push(...faults.slice(0, FAULTS_SHOWN_MAX))
    const seconds = (performance.now() - this.#sampled_ms) / 1_000
    this.#sampled_ms = performance.now()
    this.reconnects += reconnects
    return {
      load_per_s: orders / seconds,
      load_p50_ms: p50_ms,
      load_p99_ms: p99_ms,
      load_late_p99_ms: late_p99_ms,
    }
  }

  /** The account key signs the next version: the old credential's token, login and sockets end at once, and trading goes on. */
  async #rotateCredential(): Promise<void> {
    if (this.samples.length % ROTATE_MINUTES !== 0) return
    const { traders, venue } = this.site
    const trader = traders[this.credentials % traders.length]!
    const names = Array.from({ length: trader.keys }, (_, key_index) => `${trader.name} ${key_index}`)
    for (const name of names) this.#leaving.add(name)
    try {
      await until(async () => ((this.#under_way.get(trader) ?? 0) === 0 ? true : undefined))
      const version = 2 + Math.floor(this.credentials / traders.length)
      const { request, login } = testCredential(trader.name, trader.venue, { version })
      const old = trader.client
      const token = await onceServed(() => old.token())
      await onceServed(() => old.setCredential(request))
      this.credentials += 1
      const headers = { authorization: `Bearer ${token}` }
      const answer = await venueTransport(venue).fetch('/account', { headers })
      if (answer.status !== 401) this.faults.push(`a replaced credential's token answers ${answer.status}`)
      const again = await old.login().catch((error: VenueProblem) => error)
      if (!(again instanceof VenueProblem) || again.code !== 'credentials_invalid')
        this.faults.push(`a replaced credential logs in: ${again}`)
      const end_ms = performance.now() + CLOSED_MS_MAX
      while (trader.streams.some(({ lost }) => lost === 0) && performance.now() < end_ms)
        await Bun.sleep(POLL_MS)
      for (const stream of trader.streams)
        if (stream.lost === 0) this.faults.push(`/ws/${stream.stream} outlives its credential`)
      trader.client = new VenueClient(venueTransport(venue), login)
      await trader.connect()
      for (const stream of trader.streams) stream.lost = 0
    } finally {
      for (const name of names) this.#leaving.delete(name)
    }
  }

  /** After a renewal new connections get the new certificate; that sockets stayed open is counted by their owners. */
  async #lookAtCertificate(): Promise<void> {
    const { output, facts } = this.site.venue
    if (output.includes('certificate_not_renewed')) this.faults.push('a certificate was not renewed')
    const certificates = output.split('"certificate_renewed"').length - 1
    if (certificates === this.certificates) return
    this.certificates = certificates
    const ca = readFileSync(facts.certificate, 'utf8').split(/(?<=-----END CERTIFICATE-----\n)/)[0]!
    await fetch(`${facts.url}/time`, { tls: { ca } }).catch((cause) =>
      this.faults.push(`a connection after a renewal: ${cause.message}`),
    )
  }

  async #trade(trader: LoadTrader, key_index: number, goesOn: () => boolean): Promise<void> {
    const random = new Random(this.random.below(2 ** 32))
    const period_ms = (1_000 * this.site.traders.length * trader.keys) / this.per_second
    while (goesOn()) {
      await Bun.sleep(2 * random.below(period_ms))
      if (this.#leaving.has(`${trader.name} ${key_index}`)) continue
      const command = nextCommand(trader, key_index, random)
      if (command === undefined) continue
      const began_ms = performance.now()
      this.#under_way.set(trader, (this.#under_way.get(trader) ?? 0) + 1)
      const fate = await trader.send(command)
      this.#under_way.set(trader, this.#under_way.get(trader)! - 1)
      const { kind } = command
      const took = this.#took_ms[kind === 'cancel' || kind === 'modify' ? 'deferrable' : 'at_once']
      took.push(performance.now() - began_ms)
      // The next look sends it again.
      if (fate === 'unknown') return
    }
  }

  /** The largest free note of a key is paid out on chain, and as much is deposited for the key again. */
  async #exit(): Promise<void> {
    const trader = this.random.pick(this.site.traders)
    const key_index = this.random.below(trader.keys)
    const name = `${trader.name} ${key_index}`
    const { rpc_url, program_id } = this.site.venue.facts
    const chain = await openChainAccess(rpc_url, new Uint8Array(32).fill(7))
    this.#leaving.add(name)
    try {
      await Bun.sleep(1_000)
      const free = trader.wallet.state.notes.filter(
        (one) => one.state === 'free' && one.key_index === key_index && BigInt(one.amount) >= EXITED_MIN,
      )
      const [note] = free.toSorted((a, b) => Number(BigInt(b.amount) - BigInt(a.amount)))
      if (note === undefined) return
      const { mint } = note
      const amount = BigInt(note.amount)
      const destination = ownAccount(chain, mint).bytes
      await airdrop(chain, FEE_LAMPORTS)
      await mintTo(chain, mint, 1n)
      const held = await until(() => tokenBalance(chain, destination).then((one) => one || undefined))
      await until(async () => {
        const proofs = await readProofs(chain, program_id)
        const terms = { program_id, destination, proofs }
        return await requestExit(chain, trader.wallet, note, terms).catch((error) => {
          // The note's batch has not landed yet, or another one landed meanwhile and replaced the state that it cites.
          const passes =
            error instanceof ProofUnavailable || (error as Error).message.includes('unknown_state')
          if (!passes) throw error
        })
      })
      await until(async () => ((await tokenBalance(chain, destination)) >= held + amount ? true : undefined))
      const nullifier = nullifierOfNote(note)
      await until(async () =>
        (await readExitRequest(chain, program_id, nullifier)) === undefined ? true : undefined,
      )
      note.state = 'spent'
      this.exits += 1
      this.#exited.set(mint, (this.#exited.get(mint) ?? 0n) + amount)
      const { note: fresh } = await deposit(chain, trader.wallet, { program_id, mint, amount, key_index })
      this.#deposited.set(mint, (this.#deposited.get(mint) ?? 0n) + amount)
      await until(async () => {
        const proof = await trader.client.inclusion({ commitment: fresh.commitment }).catch(() => undefined)
        return proof?.usable === true ? true : undefined
      })
    } finally {
      this.#leaving.delete(name)
    }
  }

  /** Ends trading and compares the deposits with notes, fees, exits and the vault's balance on chain. */
  async balance(): Promise<string[]> {
    const { venue } = this.site
    const { rpc_url, program_id } = venue.facts
    const chain = await openChainAccess(rpc_url, new Uint8Array(32).fill(7))
    await windDown(this.site.traders)
    await this.background.child.ask('finish')
    await this.#sampleLoad()
    const traders = [...this.site.traders, ...this.background.traders]
    const { history } = await readProofs(chain, program_id)
    const deposited_of = new Map(this.#deposited)
    const add = (mint: string, amount: bigint) =>
      deposited_of.set(mint, (deposited_of.get(mint) ?? 0n) + amount)
    for (const [mint, each] of DEPOSITED) add(mint, each * BigInt(notesPerMint))
    for (const { wallet } of this.background.traders)
      for (const { mint, amount } of wallet.state.notes) add(mint, BigInt(amount))
    for (const { wallet, name } of traders)
      for (const note of markSpent(wallet, history))
        this.faults.push(`${name} held a note of ${note.amount} that is spent on chain`)
    const { mints } = await onceServed(() => traders[0]!.client.transparency())
    const lines: string[] = []
    for (const [mint, deposited] of deposited_of) {
      const notes = traders.reduce((sum, { wallet }) => sum + wallet.balance(mint), 0n)
      const fills = traders
        .flatMap(({ trading }) => trading.events)
        .filter(({ kind }) => kind === 'fill.matched')
      const is_quote = mint === traders[0]!.instrument.quote_mint
      const fees = is_quote ? fills.reduce((sum, { data }) => sum + BigInt((data as Fill).fee), 0n) : 0n
      const exited = this.#exited.get(mint) ?? 0n
      const vault = decodeBase58(mints.find((one) => one.mint === mint)!.vault, 32)!
      const held = await tokenBalance(chain, vault)
      if (notes + fees + exited !== deposited || held !== deposited - exited)
        this.faults.push(`${mint} does not balance`)
      lines.push(
        `${mint}: deposited ${deposited} = notes ${notes} + fees ${fees} + exits ${exited}; the vault holds ${held}`,
      )
    }
    return lines
  }

  async close(): Promise<void> {
    for (const trader of this.site.traders) trader.close()
    await this.background.child.end()
    await this.site.venue.remove()
  }
}

/** Of journal, history, stores and snapshots; files come and go meanwhile. */
function diskBytes(folder: string): number {
  const sizes = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile() && !one.parentPath.startsWith(join(folder, 'chain')))
    .map((one) => statSync(join(one.parentPath, one.name), { throwIfNoEntry: false })?.size ?? 0)
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Asks again until there is an answer. */
async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  const end_ms = performance.now() + EXIT_MS_MAX
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (performance.now() > end_ms) throw new Error(`no answer to ${ask}`)
    await Bun.sleep(POLL_MS)
  }
}

const USAGE = `usage: bun run soak [--minutes N] [--load N] [--per-second N] [--kill-every N] [--seed S] [--chart FILE]
Runs the venue process under steady load: a background of orders that rest and are cancelled, and traders that place, modify,
cancel, merge and split, with an exit and a deposit in each minute. Replaces credentials and the certificate, kills and restarts
the venue in its first half and once at the end, checks every account after each start, and at the end that every amount
balances and that memory, descriptors and latency stayed flat.
  --minutes     default 60
  --load        orders of the background per second, each placed and cancelled; default half of what full speed gives
  --per-second  commands of the traders, default 20
  --kill-every  minutes between kills, default 5
  --chart       SVG of memory, descriptors and latency, default soak.svg`

function minuteLine(soak: Soak): string {
  const one = soak.samples.at(-1)!
  const { commands, p50_ms, at_once_p99_ms, deferrable_p99_ms, load_per_s, load_p50_ms, load_p99_ms } = one
  const ms = (value: number) => value.toFixed(1)
  return (
    `${one.minute.toFixed(1)} min: load ${load_per_s.toFixed(0)}/s, p50 ${ms(load_p50_ms)} p99 ${ms(load_p99_ms)} ms, ` +
    `late p99 ${ms(one.load_late_p99_ms)} ms, machine load ${ms(one.machine_load)}; ` +
    `${commands} commands, places and reshapes p50 ${ms(p50_ms)} p99 ${ms(at_once_p99_ms)} ms, ` +
    `cancels and modifies p99 ${ms(deferrable_p99_ms)} ms; ${one.resident_mb.toFixed(0)} MiB resident, ` +
    `${one.descriptors} descriptors, ${one.disk_mb.toFixed(0)} MiB on disk; ${soak.exits} exits, ${soak.kills} kills, ` +
    `${soak.credentials} credentials, ${soak.certificates} certificates, ${soak.reconnects} reconnects, ` +
    `${soak.faults.length} faults`
  )
}

function chartOf(soak: Soak): string {
  const curve = (name: string, of: (sample: Sample) => number) => ({
    name,
    points: soak.samples.map((sample) => [sample.minute, Math.max(of(sample) || 0, 0.1)] as const),
  })
  return plotSvg({
    title: `Soak of ${soak.minutes.toFixed(0)} minutes, ${soak.load} orders/s, ${soak.kills} kills, ${soak.exits} exits`,
    x: 'minutes',
    y: 'MiB, milliseconds, numbers',
    linear_x: true,
    curves: [
      curve('resident MiB', (one) => one.resident_mb),
      curve('descriptors', (one) => one.descriptors),
      curve('load per second', (one) => one.load_per_s),
      curve('load p50 ms', (one) => one.load_p50_ms),
      curve('load p99 ms', (one) => one.load_p99_ms),
      curve('traders p50 ms', (one) => one.p50_ms),
      curve('cancels p99 ms', (one) => one.deferrable_p99_ms),
    ],
  })
}

await runCommand(USAGE, async (args) => {
  const within =
    readFileSync(MIGRATES, 'utf8').trim() === '1'
      ? undefined
      : inOwnNetwork(process.execPath, ...process.argv.slice(1))
  if (within !== undefined) {
    const child = Bun.spawn(within, { stdio: ['ignore', 'inherit', 'inherit'] })
    process.once('SIGINT', () => child.kill('SIGINT'))
    return child.exited
  }
  const texts = ['minutes', 'load', 'per-second', 'kill-every', 'seed', 'chart']
  const options = new Options(args, { texts })
  const minutes = options.count('minutes', 60)
  const kill_every = options.count('kill-every', 5)
  if (kill_every === 0) throw new UsageFault('--kill-every is at least 1')
  const seed = options.count('seed', Date.now() % 1_000_000_000)
  console.log(`seed ${seed}`)
  const soak = await Soak.open(seed, options.count('per-second', 20), options.count('load', 0))
  process.once('SIGINT', () => void soak.close().finally(() => process.exit(1)))
  try {
    let shown = 0
    for (let minute = 1; soak.minutes < minutes; minute++) {
      await soak.steady(60)
      for (; shown < soak.faults.length; shown++) console.log(`FAILED: ${soak.faults[shown]}`)
      console.log(minuteLine(soak))
      // One life is long: a kill frees leaked memory.
      const left = minutes - soak.minutes
      if (minute % kill_every === 0 && (left >= minutes / 2 || (left > 0 && left <= kill_every)))
        await soak.kill(minute)
    }
    for (const line of await soak.balance()) console.log(line)
    if (isJudged(soak.samples)) soak.faults.push(...judge(soak.samples, soak.load))
    else console.log('too short to judge memory, descriptors and latency')
    writeFileSync(options.optional('chart') ?? 'soak.svg', chartOf(soak))
    for (const fault of soak.faults.slice(shown)) console.log(`FAILED: ${fault}`)
    return soak.faults.length === 0
  } finally {
    await soak.close()
  }
})
