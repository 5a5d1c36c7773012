/** Trading per day and instrument, told only late and only where many took part (settlement.md "Solvency and transparency"). */
import type { Fill, Transparency } from '../../protocol/wire'
import { MS_PER_DAY } from '../limits'
import type { AccountEventOut } from '../state/outcome'
import type { SealedRows } from './sealed_rows'

/** Below this many accounts on a day the numbers of an instrument are withheld. */
const ACCOUNTS_MIN = 5
/** Whole days between the end of a day and its publication. */
const DELAY_DAYS = 1
const SHOWN_DAYS = 30

/** `accounts` stops at ACCOUNTS_MIN names: more are not needed to decide. */
type DayOfInstrument = { fills: number; volume: string; accounts: string[] }
type Day = Record<string, DayOfInstrument>

export class DailyStatistics {
  constructor(private readonly rows: SealedRows) {}

  /** Whether these events change anything here. */
  static concerns(events: readonly AccountEventOut[]): boolean {
    return events.some(({ event }) => event.kind === 'fill.matched')
  }

  record(events: readonly AccountEventOut[]): void {
    const days = new Map<number, Day>()
    for (const { account_id, event } of events) {
      if (event.kind !== 'fill.matched') continue
      const number = Math.floor(event.unix_ms / MS_PER_DAY)
      const day = days.get(number) ?? this.day(number)
      days.set(number, addFill(day, account_id, event.data as Fill))
    }
    for (const [number, day] of days) this.rows.set(`day/${number}`, day)
  }

  /** Published days, newest first; null where too few took part. */
  published(now_unix_ms: number): Transparency['statistics']['days'] {
    const newest = Math.floor(now_unix_ms / MS_PER_DAY) - 1 - DELAY_DAYS
    const numbers = Array.from({ length: SHOWN_DAYS }, (_, back) => newest - back)
    return numbers.flatMap((number) =>
      Object.entries(this.day(number)).map(([symbol, { fills, volume, accounts }]) => {
        const shown = accounts.length >= ACCOUNTS_MIN
        const day = new Date(number * MS_PER_DAY).toISOString().slice(0, 10)
        return { day, symbol, fills: shown ? fills : null, volume: shown ? volume : null }
      }),
    )
  }

  private day(number: number): Day {
    return this.rows.get<Day>(`day/${number}`) ?? {}
  }
}

/** Every lot is bought and sold once: fills and volume count the buying side, accounts both. */
function addFill(day: Day, account_id: string, fill: Fill): Day {
  const { fills, volume, accounts } = day[fill.symbol] ?? { fills: 0, volume: '0', accounts: [] }
  const known = accounts.length >= ACCOUNTS_MIN || accounts.includes(account_id)
  const bought = fill.side === 'buy'
  return {
    ...day,
    [fill.symbol]: {
      fills: fills + (bought ? 1 : 0),
      volume: (BigInt(volume) + (bought ? BigInt(fill.amount) : 0n)).toString(),
      accounts: known ? accounts : [...accounts, account_id],
    },
  }
}
