/** Rounds of load, kill -9 at a random point, restart and a full look at every account. */
import {
  checkAccepted,
  checkGapless,
  checkOpen,
  checkRefused,
  checkShown,
  madeBy,
  resendUnknown,
} from './check_restart'
import type { LoadTrader } from './load_trader'
import { openTrader } from './open_trader'
import { type Random, seededRandom } from './random'
import { readAccount } from './read_account'
import { VenueProcess } from './venue_process'

const ACCOUNTS = ['ada', 'bob', 'cyd']
const KEYS = 4
const NOTES = 2
/** Of one mint, over all accounts. */
export const notesPerMint = ACCOUNTS.length * KEYS * NOTES

const LOAD_MS_MAX = 700
/** A start takes longer than this, so some kills hit the recovery itself. */
const STARTING_MS_MAX = 900

export type CrashSite = {
  venue: VenueProcess
  traders: LoadTrader[]
  seed: number
  /** Commands whose answer a kill took, by what became of them. */
  lost: { there: number; absent: number }
}

export async function openCrashSite(seed: number): Promise<CrashSite> {
  const venue = new VenueProcess()
  await venue.start()
  const traders = await Promise.all(
    ACCOUNTS.map((name) => openTrader(venue, name, { keys: KEYS, notes: NOTES })),
  )
  return { venue, traders, seed, lost: { there: 0, absent: 0 } }
}

/** @returns everything that did not hold after the restart. */
export async function crashRound(site: CrashSite, round: number): Promise<string[]> {
  const { venue, traders } = site
  const random = seededRandom(site.seed + round)
  let loaded = true
  const workers = traders.flatMap((trader, account) => {
    trader.lean = account + round
    return Array.from({ length: trader.keys }, (_, key_index) =>
      trader.trade(key_index, seededRandom(random.integer(2 ** 32)), () => loaded),
    )
  })
  await Bun.sleep(random.integer(LOAD_MS_MAX))
  venue.signal('SIGKILL')
  loaded = false
  await Promise.all(workers)
  await venue.kill()
  await restart(venue, random)
  const faults = await Promise.all(traders.map((trader) => lookAt(site, trader)))
  return faults.flat().map((fault) => `seed ${site.seed} round ${round}: ${fault}`)
}

/** One start in three is killed on its way up. */
async function restart(venue: VenueProcess, random: Random): Promise<void> {
  if (random.integer(3) === 0) {
    const timer = setTimeout(() => venue.signal('SIGKILL'), random.integer(STARTING_MS_MAX))
    await venue.launch()
    clearTimeout(timer)
    await venue.kill()
  }
  await venue.start()
}

async function lookAt(site: CrashSite, trader: LoadTrader): Promise<string[]> {
  const shown = trader.trading.events.slice()
  await trader.connect()
  const { events, open } = await readAccount(trader.client)
  const faults = [
    ...checkGapless(events),
    ...checkShown(events, shown),
    ...checkAccepted(events, trader.sent),
    ...checkRefused(events, trader.sent),
    ...checkOpen(events, open),
  ]
  for (const command of trader.sent.filter(({ fate }) => fate === 'unknown')) {
    site.lost[madeBy(command, events) === undefined ? 'absent' : 'there']++
    faults.push(...(await resendUnknown(trader, events, command)))
  }
  return [...faults, ...trader.faults.splice(0)].map((fault) => `${trader.name}: ${fault}`)
}
