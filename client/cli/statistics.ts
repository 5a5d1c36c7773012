/** Runs `tacit statistics`: every published row of an instrument, verified, and compared with those seen before. */
import { existsSync } from 'node:fs'
import { PERIOD_S } from '../../protocol/bodies/statistics_row'
import type { StatisticsPeriod, StatisticsRow } from '../../protocol/wire/public'
import { identityOf } from '../verify/verify_receipt'
import { StatisticsRefused, verifyStatistics } from '../verify/verify_statistics'
import { writeWhole } from '../whole_file'
import { Options, readInputText, UsageFault } from './command'
import { clientOf, VENUE_TEXTS, withVenue } from './venue_login'

export const STATISTICS_USAGE = `       tacit statistics VENUE SYMBOL --login LOGIN [--period hour|day] [--history FILE]
         prints the rows as CSV, verified: unbroken from the first, the newest signed. FILE keeps them; a venue that later
         shows another row for the same time is refused`

const PAGE = 500

/** @throws UsageFault, Refused, EvidenceUnavailable */
export async function runStatistics(args: string[]): Promise<void> {
  const options = new Options(args, { texts: [...VENUE_TEXTS, 'period', 'history'], words: 2 })
  const [url = '', symbol = ''] = options.words
  const period = options.text('period', 'hour') as StatisticsPeriod
  if (symbol === '') throw new UsageFault()
  if (!Object.hasOwn(PERIOD_S, period)) throw new UsageFault('--period is hour or day')
  const path = options.optional('history')
  const asked = { symbol, period }
  const rows = await withVenue(url, options, async (venue) => {
    const client = clientOf(options, venue)
    const read: StatisticsRow[] = []
    for (let after: number | null = 0; after !== null; ) {
      const page = await client.statistics(symbol, { period, after, limit: PAGE })
      read.push(...(await verifyStatistics(page, asked, identityOf(venue), read.at(-1))))
      after = page.next_after
    }
    return read
  })
  if (path !== undefined) keep(path, asked, rows)
  console.log('start,open,high,low,close,volume,auctions')
  for (const { start_unix_s, open, high, low, close, volume, auctions } of rows) {
    const start = new Date(start_unix_s * 1_000).toISOString()
    console.log([start, ...[open, high, low, close, volume, auctions].map((one) => one ?? '')].join(','))
  }
}

type Kept = { symbol: string; period: string; rows: StatisticsRow[] }

/** @throws StatisticsRefused when a row seen before is another or gone */
function keep(path: string, asked: Omit<Kept, 'rows'>, rows: StatisticsRow[]): void {
  if (existsSync(path)) {
    const kept = Object(parsed(path)) as Kept
    if (kept.symbol !== asked.symbol || kept.period !== asked.period || !Array.isArray(kept.rows))
      throw new StatisticsRefused(`${path} holds no rows of ${asked.symbol} by ${asked.period}`)
    for (const [at, { hash, start_unix_s }] of kept.rows.entries()) {
      if (rows[at]?.hash === hash && rows[at].start_unix_s === start_unix_s) continue
      const time = new Date(start_unix_s * 1_000).toISOString()
      throw new StatisticsRefused(
        `the venue rewrote its history: the row of ${time} was signed as another before (${path})`,
      )
    }
  }
  writeWhole(path, `${JSON.stringify({ ...asked, rows })}\n`, 0o644)
}

function parsed(path: string): unknown {
  try {
    return JSON.parse(readInputText(path))
  } catch (error) {
    if (error instanceof SyntaxError) throw new StatisticsRefused(`${path} is no history of statistics`)
    throw error
  }
}
