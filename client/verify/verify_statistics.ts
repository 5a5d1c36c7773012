/** Verifies market statistics: rows that name each other by hash, the newest signed by the venue. Bun, Node and browsers. */
import { PERIOD_S, sealStatisticsRow, statisticsRowBody } from '../../protocol/bodies/statements'
import { fromHex } from '../../protocol/bytes'
import { parseU64 } from '../../protocol/units'
import type { Statistics, StatisticsPeriod, StatisticsRow } from '../../protocol/wire/public'
import { isSignedByEd25519 } from './ed25519_web'
import { Refused } from './transcript'
import type { VenueIdentity } from './verify_receipt'

/** The rows are not those of a venue that never rewrote one; the message names the first fault. */
export class StatisticsRefused extends Refused {
  override readonly name = 'StatisticsRefused'
  override readonly code = 'statistics_refused'
}

const FIRST = '00'.repeat(32)
/** The last second that a date expresses (ECMA-262, time values). */
const START_MAX_S = 8_640_000_000_000
const FIGURES = ['open', 'high', 'low', 'close', 'volume'] as const

/**
 * Verifies one page. Rows are unbroken from `before`, so who verifies page after page and keeps the last row knows that no
 * earlier one has been rewritten since.
 * @param before the last row verified so far; undefined for the first page
 * @returns the rows of the page
 * @throws StatisticsRefused naming the first check that fails: form, place, chain, hash, signature
 */
export async function verifyStatistics(
  page: Statistics,
  asked: { symbol: string; period: StatisticsPeriod },
  { venue, statement_key }: Pick<VenueIdentity, 'venue' | 'statement_key'>,
  before?: StatisticsRow,
): Promise<StatisticsRow[]> {
  const { items, period, signed, symbol } = Object(page) as Statistics
  if (symbol !== asked.symbol || period !== asked.period || !Array.isArray(items))
    throw new StatisticsRefused('the page is of another instrument or period')
  let last = before
  for (const row of items) {
    checkForm(row)
    const at = new Date(row.start_unix_s * 1_000).toISOString()
    const expected_s = last === undefined ? row.start_unix_s : last.start_unix_s + PERIOD_S[period]
    if (row.start_unix_s !== expected_s || row.start_unix_s % PERIOD_S[period] !== 0)
      throw new StatisticsRefused(`a row is missing before ${at}`)
    if (row.previous !== (last?.hash ?? FIRST))
      throw new StatisticsRefused(`the row of ${at} follows another history: an earlier row was rewritten`)
    if (sealStatisticsRow(venue, symbol, period, row).hash !== row.hash)
      throw new StatisticsRefused(`the row of ${at} is not the one of its hash`)
    last = row
  }
  const newest = items.at(-1)
  if (newest === undefined) return []
  const signature = fromHex(String(signed?.signature), 64)
  const body = statisticsRowBody(venue, symbol, period, newest)
  if (signature === undefined || !(await isSignedByEd25519(signature, body, statement_key)))
    throw new StatisticsRefused('the rows are not signed by the statement key of this venue')
  return items
}

function checkForm(row: StatisticsRow): void {
  if (typeof row !== 'object' || row === null) throw new StatisticsRefused('a row has another form')
  const { auctions, hash, previous, start_unix_s } = row
  const withheld = auctions === null
  const numbers = FIGURES.every((name) =>
    withheld ? row[name] === null : typeof row[name] === 'string' && parseU64(row[name]) !== undefined,
  )
  const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0
  const counts = isCount(start_unix_s) && start_unix_s <= START_MAX_S && (withheld || isCount(auctions))
  const hashes = [hash, previous].every((text) => fromHex(String(text), 32) !== undefined)
  if (!numbers || !counts || !hashes) throw new StatisticsRefused('a row has another form')
}
