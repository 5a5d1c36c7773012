/** Describes the rows of market statistics: each names the one before, so none changes without all later ones. */

import { fromHex, toHex } from '../bytes'
import { bool, domain, fixed, struct, text, u64, uint } from '../codec'
import { sha256 } from '../sha256'
import type { StatisticsPeriod, StatisticsRow } from '../wire/public'

const ROW = struct({
  domain: domain('tacit/statrow/v1'),
  venue: fixed(32),
  symbol: text,
  /** Seconds that the row covers. */
  period_s: uint,
  start_unix_s: uint,
  /** False where too few accounts took part; every number is 0 then. */
  shown: bool,
  /** Quote units per whole base token. */
  open: u64,
  high: u64,
  low: u64,
  close: u64,
  /** Base units. */
  volume: u64,
  auctions: uint,
  /** Hash of the row before; zeros for the first. */
  previous: fixed(32),
})

export const PERIOD_S = { hour: 3_600, day: 86_400 } as const satisfies Record<StatisticsPeriod, number>

/** The bytes that are hashed, and signed with the statement key. @throws RangeError for a number that is none */
export function statisticsRowBody(
  venue: Uint8Array,
  symbol: string,
  period: StatisticsPeriod,
  row: Omit<StatisticsRow, 'hash'>,
): Uint8Array {
  const { auctions, close, high, low, open, previous, start_unix_s, volume } = row
  return ROW.encode({
    venue,
    symbol,
    period_s: PERIOD_S[period],
    start_unix_s,
    shown: auctions !== null,
    open: BigInt(open ?? 0),
    high: BigInt(high ?? 0),
    low: BigInt(low ?? 0),
    close: BigInt(close ?? 0),
    volume: BigInt(volume ?? 0),
    auctions: auctions ?? 0,
    previous: fromHex(previous, 32)!,
  })
}

/** The row with its hash. */
export function sealStatisticsRow(
  venue: Uint8Array,
  symbol: string,
  period: StatisticsPeriod,
  row: Omit<StatisticsRow, 'hash'>,
): StatisticsRow {
  return { ...row, hash: toHex(sha256(statisticsRowBody(venue, symbol, period, row))) }
}
