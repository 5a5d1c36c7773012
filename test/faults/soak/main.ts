/** `bun run soak`: the real process under steady load with kills and restarts, and a chart of its memory and latency. */

import { writeFileSync } from 'node:fs'
import { plotSvg } from '../../../bench/kit/plot'
import { openChainAccess } from '../../../client/chain/chain_access'
import { airdrop, deposit, mintTo } from '../../../client/chain/deposit'
import { readProofs, requestExit } from '../../../client/chain/exit_note'
import { ownAccount, readExitRequest, tokenBalance } from '../../../client/chain/read_vault'
import { Options, runCommand, UsageFault } from '../../../client/cli/command'
import { nullifierOfNote, ProofUnavailable } from '../../../client/exit/prepare_exit'
import { markSpent } from '../../../client/wallet/absorb'
import { decodeBase58 } from '../../../protocol/base58'
import type { Fill } from '../../../protocol/wire/trading'
import { Random } from '../../kit/random'
import { type CrashSite, crashRound, lookAt, notesPerMint, openCrashSite } from '../kit/crash_rounds'
import { type LoadTrader, nextCommand, onceServed, windDown } from '../kit/load_trader'
import { DEPOSITED } from '../kit/open_trader'
import { residentBytes } from '../kit/venue_process'

const PACE = new URL('./snapshot_pace.ts', import.meta.url).pathname
const FEE_LAMPORTS = 5_000_000_000n
const POLL_MS = 100
const SLOT_MS = 400
/** A busy machine is late. */
const EXIT_MS_MAX = 300_000
/** Smaller notes cost more to move than they hold. */
const EXITED_MIN = 100_000_000n

/** Times of cancels and modifies are apart: of a member of a closed batch they are answered by its match, two slots later. */
type Sample = {
  minute: number
  resident_mb: number
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
  /** Minutes in which a command of an account got no answer in time. */
  unanswered = 0
  readonly #exited = new Map<string, bigint>()
  readonly #deposited = new Map<string, bigint>()
  /** Keys whose note is leaving: they send nothing. */
  readonly #leaving = new Set<string>()
  readonly #began_ms = performance.now()
  readonly #took_ms: { at_once: number[]; deferrable: number[] } = { at_once: [], deferrable: [] }

  private constructor(
    readonly site: CrashSite,
    readonly random: Random,
    readonly per_second: number,
  ) {}

  static async open(seed: number, per_second: number): Promise<Soak> {
    return new Soak(
      await openCrashSite(seed, { slot_ms: SLOT_MS, preloaded: [PACE] }),
      new Random(seed),
      per_second,
    )
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
    const leaving = this.#exit().catch((cause) => this.faults.push(`an exit: ${(cause as Error).message}`))
    await Promise.all(workers)
    await leaving
    for (const trader of traders) {
      if (!trader.sent.some(({ fate }) => fate === 'unknown')) continue
      this.unanswered += 1
      trader.close()
      this.faults.push(...(await lookAt(this.site, trader, false)))
    }
    for (const { faults, name } of traders)
      this.faults.push(...faults.splice(0).map((fault) => `${name}: ${fault}`))
    for (const each of [at_once, deferrable]) each.sort((a, b) => a - b)
    this.samples.push({
      minute: this.minutes,
      resident_mb: (await residentBytes(this.site.venue)) / 2 ** 20,
      p50_ms: share(at_once, 0.5),
      at_once_p99_ms: share(at_once, 0.99),
      deferrable_p99_ms: share(deferrable, 0.99),
      commands: at_once.length + deferrable.length,
    })
  }

  async kill(round: number): Promise<void> {
    this.kills += 1
    this.faults.push(...(await crashRound(this.site, round)))
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
      const fate = await trader.send(command)
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
    const { traders, venue } = this.site
    const { rpc_url, program_id } = venue.facts
    const chain = await openChainAccess(rpc_url, new Uint8Array(32).fill(7))
    await windDown(traders)
    const { history } = await readProofs(chain, program_id)
    for (const { wallet, name } of traders)
      for (const note of markSpent(wallet, history))
        this.faults.push(`${name} held a note of ${note.amount} that is spent on chain`)
    const { mints } = await onceServed(() => traders[0]!.client.transparency())
    const lines: string[] = []
    for (const [mint, each] of DEPOSITED) {
      const notes = traders.reduce((sum, { wallet }) => sum + wallet.balance(mint), 0n)
      const fills = traders
        .flatMap(({ trading }) => trading.events)
        .filter(({ kind }) => kind === 'fill.matched')
      const is_quote = mint === traders[0]!.instrument.quote_mint
      const fees = is_quote ? fills.reduce((sum, { data }) => sum + BigInt((data as Fill).fee), 0n) : 0n
      const exited = this.#exited.get(mint) ?? 0n
      const deposited = each * BigInt(notesPerMint) + (this.#deposited.get(mint) ?? 0n)
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
    await this.site.venue.remove()
  }
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

const USAGE = `usage: bun run soak [--minutes N] [--per-second N] [--kill-every N] [--seed S] [--chart FILE]
Runs the venue process under steady load: places, modifies, cancels and merges, with an exit and a deposit in each minute.
Kills and restarts it in between, checks every account after each start, and at the end that every amount balances.
  --minutes     default 60
  --per-second  commands, default 20
  --kill-every  minutes between kills, default 5
  --chart       SVG of resident memory and latency, default soak.svg`

await runCommand(USAGE, async (args) => {
  const options = new Options(args, { texts: ['minutes', 'per-second', 'kill-every', 'seed', 'chart'] })
  const minutes = options.count('minutes', 60)
  const kill_every = options.count('kill-every', 5)
  if (kill_every === 0) throw new UsageFault('--kill-every is at least 1')
  const seed = options.count('seed', Date.now() % 1_000_000_000)
  console.log(`seed ${seed}`)
  const soak = await Soak.open(seed, options.count('per-second', 20))
  process.once('SIGINT', () => void soak.close().finally(() => process.exit(1)))
  try {
    let shown = 0
    for (let minute = 1; soak.minutes < minutes; minute++) {
      await soak.steady(60)
      for (; shown < soak.faults.length; shown++) console.log(`FAILED: ${soak.faults[shown]}`)
      const { resident_mb, p50_ms, at_once_p99_ms, deferrable_p99_ms, commands } = soak.samples.at(-1)!
      console.log(
        `${soak.minutes.toFixed(1)} min: ${commands} commands, places and merges p50 ${p50_ms.toFixed(1)} ms, ` +
          `p99 ${at_once_p99_ms.toFixed(1)} ms, cancels and modifies p99 ${deferrable_p99_ms.toFixed(1)} ms, ` +
          `${resident_mb.toFixed(0)} MiB resident, ${soak.exits} exits, ${soak.kills} kills, ${soak.faults.length} faults`,
      )
      if (minute % kill_every === 0 && soak.minutes < minutes) await soak.kill(minute)
    }
    for (const line of await soak.balance()) console.log(line)
    const curve = (name: string, of: (sample: Soak['samples'][number]) => number) => ({
      name,
      points: soak.samples.map((sample) => [sample.minute, Math.max(of(sample), 0.1)] as const),
    })
    const chart = plotSvg({
      title: `Soak of ${soak.minutes.toFixed(0)} minutes, ${soak.kills} kills, ${soak.exits} exits`,
      x: 'minutes',
      y: 'MiB, milliseconds',
      linear_x: true,
      curves: [
        curve('resident MiB', (one) => one.resident_mb),
        curve('places p50 ms', (one) => one.p50_ms),
        curve('places p99 ms', (one) => one.at_once_p99_ms),
        curve('cancels p99 ms', (one) => one.deferrable_p99_ms),
      ],
    })
    writeFileSync(options.optional('chart') ?? 'soak.svg', chart)
    for (const fault of soak.faults.slice(shown)) console.log(`FAILED: ${fault}`)
    return soak.faults.length === 0
  } finally {
    await soak.close()
  }
})
