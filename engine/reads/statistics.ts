/**
 * Market statistics by hour and day: counted from fills, published late, withheld where few accounts took part, and chained
 * by hash (api.md "Market data without leaks").
 */

import { PERIOD_S, sealStatisticsRow } from '../../protocol/bodies/statements'
import { toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { Ticks } from '../../protocol/units'
import type { StatisticsPeriod, StatisticsRow } from '../../protocol/wire/public'
import type { Fill, Transparency } from '../../protocol/wire/trading'
import { LIMITS, MS_PER_DAY } from '../limits'
import type { AccountEventOut } from '../machine/state/outcome'
import type { SealedRows } from './sealed_rows'

const MS_PER_HOUR = 3_600_000
const HOURS_OF_DAY = 24
const FIRST = '00'.repeat(32)

/** One hour of an instrument. `accounts` has at most LIMITS.statistics_accounts_min entries, which suffice to publish. */
type Hour = {
  open: string
  high: string
  low: string
  close: string
  volume: string
  fills: number
  /** Auctions with fills, and the number of the newest. */
  auctions: number
  batch: number
  accounts: string[]
}
/** The hour of an instrument that later records may still change, and the reference price around its last collar. */
type OpenHour = { number: number; hour?: Hour; reference?: string }
/** The base of an instrument's next rows. */
type Market = {
  /** Number of the first hour. */
  since: number
  open?: OpenHour
  /** By period, the newest published row. */
  last: Partial<Record<StatisticsPeriod, Last>>
  /** By day that is not published, the hash over its kept hours: without each of them the day is withheld. */
  days: Record<number, string>
}
/**
 * State with more than one version. Its owner stores it in one row with the point of the journal up to which it is counted, so
 * no host can replace a later count by an earlier one, or leave one out, and publish both.
 */
export type Counting = {
  markets: Record<string, Market>
  /** Newest hour of which fills may not have been counted; -1 without one. */
  lost: number
}
type CountingRow = {
  read(): Counting
  write(counting: Counting): void
  /** Runs `work` and stores its changes, rows and counting, both or neither. @returns whether the disk took them */
  together(work: () => void): boolean
  /** Whether fills wait for the disk, which a row would lack for good. */
  isStalled(): boolean
}
type Kept = StatisticsRow & { fills: number | null }
/** The last reference of a published hour. */
type Reference = { ticks: string; until_unix_s: number }
type Last = { number: number; hash: string }

/** Whether these events change the statistics. */
export const isTraded = (events: readonly AccountEventOut[]): boolean =>
  events.some(({ event }) => event.kind === 'fill.matched')

export class Statistics {
  constructor(
    private readonly rows: SealedRows,
    private readonly counting: CountingRow,
  ) {}

  /** The records up to this time are not there to be counted: hours that are not published yet are withheld. */
  lose(unix_ms: number): void {
    const markets = Object.entries(this.counting.read().markets).map(
      ([symbol, { open: _, ...market }]) => [symbol, market] as const,
    )
    this.counting.write({ markets: Object.fromEntries(markets), lost: Math.floor(unix_ms / MS_PER_HOUR) })
  }

  /** Counts fills in the hour of their event: stamps never go back, so no published hour changes. */
  record(events: readonly AccountEventOut[]): void {
    const fills = events.flatMap(({ account_id, event }) =>
      event.kind === 'fill.matched' ? [{ account_id, event, fill: event.data as Fill }] : [],
    )
    // An account's fills are adjacent, auctions are not.
    for (const { account_id, event, fill } of fills.sort((a, b) => a.fill.batch - b.fill.batch)) {
      this.change(fill.symbol, event.unix_ms, (own) => ({
        ...own,
        hour: addFill(own.hour, account_id, fill),
      }))
    }
  }

  /** Keeps the reference price around which the collar of a batch lies; the first one begins the instrument's rows. */
  refer(symbol: string, ticks: Ticks, unix_ms: number): void {
    const reference = String(ticks)
    const own = this.openHour(symbol, Math.floor(unix_ms / MS_PER_HOUR))
    if (own?.reference !== reference) this.change(symbol, unix_ms, (open) => ({ ...open, reference }))
  }

  /** Changes the open hour of this time; the one before it is over and kept for its rows. */
  private change(symbol: string, unix_ms: number, changed: (own: OpenHour) => OpenHour): void {
    const { markets, lost } = this.counting.read()
    const number = Math.floor(unix_ms / MS_PER_HOUR)
    const known = markets[symbol] ?? { since: number, last: {}, days: {} }
    const market = known.open === undefined || known.open.number === number ? known : this.keep(symbol, known)
    const open = changed(market.open ?? { number })
    this.counting.write({ markets: { ...markets, [symbol]: { ...market, open } }, lost })
  }

  /** The market without its open hour, which is over: its rows are counted from the values kept here. */
  private keep(symbol: string, { open, ...market }: Market): Market {
    const { hour, reference, number } = open!
    const day = Math.floor(number / HOURS_OF_DAY)
    // The inputs of a published day are not kept.
    if (day <= (market.last.day?.number ?? -1)) return market
    if (reference !== undefined) this.rows.set(referenceName(symbol, number), reference)
    if (hour === undefined) return market
    this.rows.set(hourName(symbol, number), hour)
    return { ...market, days: { ...market.days, [day]: joinHash(market.days[day], number, hour) } }
  }

  private market(symbol: string): Market | undefined {
    return this.counting.read().markets[symbol]
  }

  private openHour(symbol: string, number: number): OpenHour | undefined {
    const open = this.market(symbol)?.open
    return open?.number === number ? open : undefined
  }

  private hourAt(symbol: string, number: number): Hour | undefined {
    return this.openHour(symbol, number)?.hour ?? this.rows.get<Hour>(hourName(symbol, number))
  }

  /** The hours with fills of a day; undefined if any that was kept is not as it was. */
  private hoursOf(symbol: string, day: number): Hour[] | undefined {
    const hours: Hour[] = []
    let hash: string | undefined
    for (let at = 0; at < HOURS_OF_DAY; at++) {
      const number = day * HOURS_OF_DAY + at
      const hour = this.hourAt(symbol, number)
      if (hour === undefined) continue
      hours.push(hour)
      if (this.openHour(symbol, number) === undefined) hash = joinHash(hash, number, hour)
    }
    return hash === this.market(symbol)?.days[day] ? hours : undefined
  }

  /** Published rows that start after `after_unix_s`, oldest first. */
  page(
    terms: { venue: Uint8Array; symbol: string; period: StatisticsPeriod },
    { after_unix_s, limit, now_unix_ms }: { after_unix_s: number; limit: number; now_unix_ms: number },
  ): { items: StatisticsRow[]; next_after: number | null } {
    const { symbol, period } = terms
    const last = this.publish(terms, now_unix_ms)
    const since = this.first(symbol, period)
    if (last === undefined || since === undefined) return { items: [], next_after: null }
    const from = Math.max(since, Math.floor(after_unix_s / PERIOD_S[period]) + 1)
    const items: StatisticsRow[] = []
    for (let number = from; number <= last.number && items.length < limit; number++) {
      const kept = this.rows.get<Kept>(rowName(symbol, period, number))
      // Lost on the disk: the row behind it names its hash, so a client misses it.
      if (kept === undefined) continue
      const { fills: _, ...row } = kept
      items.push(row)
    }
    const newest = items.at(-1)
    const goes_on = newest !== undefined && items.length === limit && newest.hash !== last.hash
    return { items, next_after: goes_on ? newest.start_unix_s : null }
  }

  /** As of the newest published hour that is not withheld; the same object until another is. */
  reference(venue: Uint8Array, symbol: string, now_unix_ms: number): Reference | undefined {
    this.publish({ venue, symbol, period: 'hour' }, now_unix_ms)
    return this.rows.get<Reference>(`reference/${symbol}`)
  }

  /** Published days of 30, newest first; null where the numbers are withheld. */
  days(
    venue: Uint8Array,
    symbols: readonly string[],
    now_unix_ms: number,
  ): Transparency['statistics']['days'] {
    const newest = Math.floor(now_unix_ms / MS_PER_DAY) - 1 - LIMITS.statistics_delay_days
    const numbers = Array.from({ length: LIMITS.statistics_days_max }, (_, back) => newest - back)
    for (const symbol of symbols) this.publish({ venue, symbol, period: 'day' }, now_unix_ms)
    return numbers.flatMap((number) =>
      symbols.flatMap((symbol) => {
        const row = this.rows.get<Kept>(rowName(symbol, 'day', number))
        if (row === undefined) return []
        const day = new Date(number * MS_PER_DAY).toISOString().slice(0, 10)
        return [{ day, symbol, fills: row.fills, volume: row.volume }]
      }),
    )
  }

  /** Chains the rows that have become due, unless the disk takes none; the newest one is returned. */
  private publish(
    terms: { venue: Uint8Array; symbol: string; period: StatisticsPeriod },
    now_unix_ms: number,
  ): Last | undefined {
    const { venue, symbol, period } = terms
    // A day's row takes the hours that it was counted from.
    const hours = period === 'day' ? this.publish({ ...terms, period: 'hour' }, now_unix_ms) : undefined
    const since = this.first(symbol, period)
    let last = this.market(symbol)?.last[period]
    if (since === undefined) return last
    const newest = Math.floor((now_unix_ms - LIMITS.statistics_delay_ms) / (PERIOD_S[period] * 1_000)) - 1
    const before = last?.number ?? since - 1
    const whole = period === 'hour' ? newest : Math.floor(((hours?.number ?? -1) + 1) / HOURS_OF_DAY) - 1
    const due = Math.min(newest, whole, before + LIMITS.statistics_rows_max)
    if (before >= due || this.counting.isStalled()) return last
    const published = last
    const is_stored = this.counting.together(() => {
      for (let number = before + 1; number <= due; number++) {
        const { fills, ...figures } = period === 'hour' ? this.hour(symbol, number) : this.day(symbol, number)
        const start_unix_s = number * PERIOD_S[period]
        const previous = last?.hash ?? FIRST
        const row = sealStatisticsRow(venue, symbol, period, { start_unix_s, ...figures, previous })
        this.rows.set(rowName(symbol, period, number), { ...row, fills } satisfies Kept)
        last = { number, hash: row.hash }
        this.published(symbol, period, last)
        if (period === 'hour' && fills !== null) this.publishReference(symbol, number)
      }
    })
    return is_stored ? last : published
  }

  private published(symbol: string, period: StatisticsPeriod, last: Last): void {
    const { markets, lost } = this.counting.read()
    const market = markets[symbol]!
    const days = { ...market.days }
    if (period === 'day') {
      this.forget(symbol, last.number)
      delete days[last.number]
    }
    const changed = { ...market, last: { ...market.last, [period]: last }, days }
    this.counting.write({ markets: { ...markets, [symbol]: changed }, lost })
  }

  private publishReference(symbol: string, number: number): void {
    const ticks =
      this.openHour(symbol, number)?.reference ?? this.rows.get<string>(referenceName(symbol, number))
    if (ticks === undefined) return
    const reference: Reference = { ticks, until_unix_s: (number + 1) * PERIOD_S.hour }
    this.rows.set(`reference/${symbol}`, reference)
  }

  /** Removes the inputs of a published day. */
  private forget(symbol: string, day: number): void {
    for (let at = 0; at < HOURS_OF_DAY; at++) {
      const number = day * HOURS_OF_DAY + at
      this.rows.delete(hourName(symbol, number))
      this.rows.delete(referenceName(symbol, number))
    }
  }

  /** Number of the first hour or day. */
  private first(symbol: string, period: StatisticsPeriod): number | undefined {
    const since = this.market(symbol)?.since
    return since === undefined || period === 'hour' ? since : Math.floor(since / HOURS_OF_DAY)
  }

  private hour(symbol: string, number: number): Figures {
    const hour = this.isLost(number) ? undefined : this.hourAt(symbol, number)
    return hour !== undefined && isShown(hour) ? figuresOf(hour) : WITHHELD
  }

  /** A day less its published hours would reveal the withheld ones, so these need as many accounts together. */
  private day(symbol: string, number: number): Figures {
    const hours = this.isLost(number * HOURS_OF_DAY) ? undefined : this.hoursOf(symbol, number)
    if (hours === undefined) return WITHHELD
    const hidden = hours.filter((hour) => !isShown(hour))
    const [accounts, hidden_accounts] = [accountsOf(hours), accountsOf(hidden)]
    const few = LIMITS.statistics_accounts_min
    if (accounts < few || (hidden.length > 0 && hidden_accounts < few)) return WITHHELD
    return figuresOf(hours.reduce(join))
  }

  private isLost(hour: number): boolean {
    return hour <= this.counting.read().lost
  }
}

type Figures = Pick<StatisticsRow, 'open' | 'high' | 'low' | 'close' | 'volume' | 'auctions'> & {
  fills: number | null
}
/** An hour without trading and one with few accounts look alike. */
const WITHHELD: Figures = {
  open: null,
  high: null,
  low: null,
  close: null,
  volume: null,
  auctions: null,
  fills: null,
}

const referenceName = (symbol: string, number: number) => `reference/${symbol}/${number}`
const hourName = (symbol: string, number: number) => `hour/${symbol}/${number}`
const rowName = (symbol: string, period: StatisticsPeriod, number: number) =>
  `row/${symbol}/${period}/${number}`

/** Hash over the hours of a day so far, in their order. */
const joinHash = (before: string | undefined, number: number, hour: Hour): string =>
  toHex(sha256(utf8(JSON.stringify([before ?? FIRST, number, hour]))))

const isShown = ({ accounts }: Hour): boolean => accounts.length >= LIMITS.statistics_accounts_min
const accountsOf = (hours: readonly Hour[]): number => new Set(hours.flatMap(({ accounts }) => accounts)).size

function figuresOf({ open, high, low, close, volume, auctions, fills }: Hour): Figures {
  return { open, high, low, close, volume, auctions, fills }
}

/** Fills and volume count the buying side only, as each lot is bought and sold once; accounts count both sides. */
function addFill(hour: Hour | undefined, account_id: string, fill: Fill): Hour {
  const bought = fill.side === 'buy'
  const one: Hour = {
    open: fill.price,
    high: fill.price,
    low: fill.price,
    close: fill.price,
    volume: bought ? fill.amount : '0',
    fills: bought ? 1 : 0,
    auctions: 1,
    batch: fill.batch,
    accounts: [account_id],
  }
  return hour === undefined ? one : join(hour, one)
}

/** `later` follows `hour`; parts of one auction count once. */
function join(hour: Hour, later: Hour): Hour {
  const accounts = [...new Set([...hour.accounts, ...later.accounts])]
  return {
    open: hour.open,
    high: BigInt(later.high) > BigInt(hour.high) ? later.high : hour.high,
    low: BigInt(later.low) < BigInt(hour.low) ? later.low : hour.low,
    close: later.close,
    volume: String(BigInt(hour.volume) + BigInt(later.volume)),
    fills: hour.fills + later.fills,
    auctions: hour.auctions + later.auctions - (hour.batch === later.batch ? 1 : 0),
    batch: later.batch,
    accounts: accounts.slice(0, LIMITS.statistics_accounts_min),
  }
}
