/** `tacit statistics`: every published row of an instrument, verified, and compared with those seen before. */
import { existsSync } from 'node:fs'
import { PERIOD_S } from '../../protocol/bodies/statistics_row'
import type { StatisticsPeriod, StatisticsRow } from '../../protocol/wire/public'
import { identityOf } from '../verify/verify_receipt'
import { StatisticsRefused, verifyStatistics } from '../verify/verify_statistics'
import { writeWhole } from '../whole_file'
import type { Call, Verb } from './call'
import { InputFault, readInputText, timeOf, UsageFault } from './command'

const PAGE = 500

export const STATISTICS: Verb = {
  form: '[URL] SYMBOL [--period hour|day] [--history FILE]',
  reads: ['venue', 'login'],
  says: `prints the published rows of an instrument as CSV, verified: unbroken from the first, the newest signed. FILE keeps them; a
  venue that later shows another row for the same time is refused`,
  example: 'tacit statistics SOL-USDC --history hours.json',
  run: statistics,
}

async function statistics(call: Call): Promise<void> {
  const symbol = call.words.at(-1)!
  const period = call.text('period', 'hour') as StatisticsPeriod
  if (symbol.includes('://')) throw new UsageFault()
  if (!Object.hasOwn(PERIOD_S, period)) throw new UsageFault('--period is hour or day')
  const path = call.optional('history')
  const asked = { symbol, period }
  const venue = await call.venue()
  const client = call.client(venue)
  const rows: StatisticsRow[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page = await client.statistics(symbol, { period, after, limit: PAGE })
    rows.push(...(await verifyStatistics(page, asked, identityOf(venue), rows.at(-1))))
    after = page.next_after
  }
  if (path !== undefined) keep(path, asked, rows)
  call.print(rows, () => [
    'start,open,high,low,close,volume,auctions',
    ...rows.map(({ start_unix_s, open, high, low, close, volume, auctions }) => {
      const figures = [open, high, low, close, volume, auctions].map((one) => one ?? '')
      return [timeOf(start_unix_s), ...figures].join(',')
    }),
  ])
}

type Kept = { symbol: string; period: string; rows: StatisticsRow[] }

/** @throws StatisticsRefused when a row seen before is another or gone */
function keep(path: string, asked: Omit<Kept, 'rows'>, rows: StatisticsRow[]): void {
  if (existsSync(path)) {
    const kept = Object(parsed(path)) as Kept
    if (kept.symbol !== asked.symbol || kept.period !== asked.period || !Array.isArray(kept.rows))
      throw new InputFault(`${path} holds no rows of ${asked.symbol} by ${asked.period}`)
    for (const [at, { hash, start_unix_s }] of kept.rows.entries()) {
      if (rows[at]?.hash === hash && rows[at].start_unix_s === start_unix_s) continue
      const time = timeOf(start_unix_s)
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
    if (error instanceof SyntaxError) throw new InputFault(`${path} is no history of statistics`)
    throw error
  }
}
