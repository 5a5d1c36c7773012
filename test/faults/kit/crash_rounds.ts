/** Rounds of load, kill -9 at a random point of the process's life, restart and a full look at every account. */
import type { AccountEvent } from '../../../protocol/wire/trading'
import { Random } from '../../kit/random'
import {
  checkAccepted,
  checkGapless,
  checkOpen,
  checkRefused,
  checkShown,
  indexEvents,
  madeBy,
  readAccount,
  resendUnknown,
} from './check_restart'
import type { LoadTrader } from './load_trader'
import { openTrader } from './open_trader'
import { VenueProcess } from './venue_process'

const ACCOUNTS = ['ada', 'bob', 'cyd']
const KEYS = 4
const NOTES = 2
/** Of one mint, over all accounts. */
export const notesPerMint = ACCOUNTS.length * KEYS * NOTES

const LOAD_MS_MAX = 700
const TIGHT_LIMITS = new URL('./tight_limits.ts', import.meta.url).pathname
/** Kills reach this far beyond what the phase took last time. */
const BEYOND = 1.2
/** A look reads what is new; every so many rounds it reads the whole list again. */
const WHOLE_EVERY = 20

export type CrashSite = {
  venue: VenueProcess
  traders: LoadTrader[]
  seed: number
  /** Commands whose answer a kill took, by what became of them. */
  lost: { there: number; absent: number }
  /** How lives ended: killed under load, while draining, on the way up, just up; or stopped before the kill came. */
  ends: Record<'load' | 'drain' | 'start' | 'served' | 'stopped', number>
  /** What the newest whole start and the newest whole stop took. */
  start_ms: number
  drain_ms: number
  /** What REST listed at the last look. */
  listed: Map<LoadTrader, AccountEvent[]>
}

export async function openCrashSite(
  seed: number,
  { slot_ms = 20, preloaded = [TIGHT_LIMITS] } = {},
): Promise<CrashSite> {
  const venue = new VenueProcess({ TACIT_SLOT_MS: `${slot_ms}` }, preloaded)
  await venue.start()
  const traders = await Promise.all(
    ACCOUNTS.map((name) => openTrader(venue, name, { keys: KEYS, notes: NOTES })),
  )
  return {
    venue,
    traders,
    seed,
    lost: { there: 0, absent: 0 },
    ends: { load: 0, drain: 0, start: 0, served: 0, stopped: 0 },
    start_ms: 1_000,
    drain_ms: 600,
    listed: new Map(traders.map((trader) => [trader, []])),
  }
}

/** @returns everything that did not hold after the restart. */
export async function crashRound(site: CrashSite, round: number): Promise<string[]> {
  const random = new Random(site.seed + round)
  const faults = await live(site, round, random)
  faults.push(...(await restart(site, random)))
  const whole = round % WHOLE_EVERY === 0
  const seen = await Promise.all(site.traders.map((trader) => lookAt(site, trader, whole))).catch((cause) => {
    const printed = site.venue.output.slice(-4_000)
    throw new Error(`seed ${site.seed} round ${round}: a look failed; the venue printed\n${printed}`, {
      cause,
    })
  })
  return [...faults, ...seen.flat()].map((fault) => `seed ${site.seed} round ${round}: ${fault}`)
}

/** Commands on every key, without a kill, until every account has a fill: short rounds may end before a match. */
export async function tradeUntilFilled({ traders, seed }: CrashSite): Promise<void> {
  const random = new Random(seed)
  const isUnfilled = ({ trading }: LoadTrader) => !trading.events.some(({ kind }) => kind === 'fill.matched')
  const goesOn = (): boolean => traders.some(isUnfilled)
  await Promise.all(traders.flatMap((trader) => tradeOnEveryKey(trader, random, goesOn)))
}

function tradeOnEveryKey(trader: LoadTrader, random: Random, goesOn: () => boolean): Promise<void>[] {
  return Array.from({ length: trader.keys }, (_, key_index) =>
    trader.trade(key_index, new Random(random.below(2 ** 32)), goesOn),
  )
}

/** Commands on every key and sockets that come and go, until the kill. */
async function live(site: CrashSite, round: number, random: Random): Promise<string[]> {
  const { venue, traders } = site
  let loaded = true
  const goesOn = (): boolean => loaded
  const workers = traders.flatMap((trader, account) => {
    trader.lean = account + round
    trader.draining = false
    return [
      ...tradeOnEveryKey(trader, random, goesOn),
      ...trader.streams.map((stream) => stream.comeAndGo(new Random(random.below(2 ** 32)), goesOn)),
    ]
  })
  await Bun.sleep(random.below(LOAD_MS_MAX))
  const drains = random.below(3) === 0
  const faults = drains ? await killDraining(site, random) : []
  if (!drains) site.ends.load++
  venue.signal('SIGKILL')
  loaded = false
  await Promise.all(workers)
  await venue.ended()
  if (!drains && venue.ended_by !== 'SIGKILL') faults.push('the process ended by itself under load')
  return faults
}

/** SIGTERM, and the kill somewhere on the way down. */
async function killDraining(site: CrashSite, random: Random): Promise<string[]> {
  const { venue, traders, ends } = site
  for (const trader of traders) trader.draining = true
  const began_ms = performance.now()
  venue.signal('SIGTERM')
  const late = Bun.sleep(random.below(site.drain_ms * BEYOND)).then(() => 'late' as const)
  const code = await Promise.race([late, venue.ended()])
  ends[code === 'late' ? 'drain' : 'stopped']++
  if (code === 'late') return []
  site.drain_ms = performance.now() - began_ms
  return code === 0 ? [] : [`a stop ended with code ${code}`]
}

/** One start in two is killed on its way up or just after; the next one must serve. */
async function restart(site: CrashSite, random: Random): Promise<string[]> {
  const { venue, ends } = site
  const faults: string[] = []
  if (random.below(2) === 0) {
    const killed = Promise.withResolvers<void>()
    const after_ms = random.below(site.start_ms * BEYOND)
    setTimeout(() => {
      venue.signal('SIGKILL')
      killed.resolve()
    }, after_ms)
    const served = await venue.launch()
    await killed.promise
    await venue.ended()
    if (venue.ended_by !== 'SIGKILL') faults.push('a start ended by itself')
    ends[served ? 'served' : 'start']++
  }
  const began_ms = performance.now()
  await venue.start()
  site.start_ms = performance.now() - began_ms
  return faults
}

/** Everything that does not hold of an account; sends what got no answer again. */
export async function lookAt(site: CrashSite, trader: LoadTrader, whole: boolean): Promise<string[]> {
  const known = whole ? [] : site.listed.get(trader)!
  const shown = trader.trading.events.slice(known.length)
  await trader.connect()
  const { events, open } = await readAccount(trader.client, known)
  site.listed.set(trader, events)
  const index = indexEvents(events)
  const faults = [
    ...checkGapless(events),
    ...checkShown(events, shown),
    ...checkAccepted(index, trader.sent),
    ...checkRefused(index, trader.sent),
    ...checkOpen(events, open),
  ]
  for (const command of trader.sent.filter(({ fate }) => fate === 'unknown')) {
    site.lost[madeBy(command, index) === undefined ? 'absent' : 'there']++
    faults.push(...(await resendUnknown(trader, index, command)))
  }
  return [...faults, ...trader.faults.splice(0)].map((fault) => `${trader.name}: ${fault}`)
}
