/** Judges a soak: memory, descriptors and latency are flat, the load was sustained, and acknowledged orders are there, once. */
import { median, quantile } from '../../../bench/kit/figures'
import type { AccountEvent, Order } from '../../../protocol/wire/trading'

/** Of a minute without a kill in it. */
export type Sample = {
  minute: number
  /** Kills before it. */
  kills: number
  resident_mb: number
  descriptors: number
  /** Of the background load, places. */
  load_per_s: number
  load_p50_ms: number
  load_p99_ms: number
}

/**
 * By name: at most so many times in the last third what it was in the middle third; the first third warms up. A figure that
 * grows steadily from nothing has 5/3 there. Memory and descriptors: the median minutes, with 15 % for the moments of garbage
 * collections. Latency: the lower quartiles of the minutes, as other processes slow some of them down, and a venue that gets
 * slower slows all of them down.
 */
const FLAT: Partial<Record<keyof Sample, { times: number; share: number }>> = {
  resident_mb: { times: 1.15, share: 0.5 },
  descriptors: { times: 1.15, share: 0.5 },
  load_p50_ms: { times: 1.5, share: 0.25 },
  load_p99_ms: { times: 1.5, share: 0.25 },
}
/** Of the load that was asked for, in the median minute. */
const LOAD_MIN = 0.9
/** A third of fewer minutes says nothing. */
const THIRD_MIN = 3

/** Names figures that change over the whole soak, or over the longest life of a process: a kill frees leaked memory. */
export function judge(samples: readonly Sample[], load_per_s: number): string[] {
  const lives = [...Map.groupBy(samples, ({ kills }) => kills).values()]
  const longest = lives.toSorted((a, b) => b.length - a.length)[0] ?? []
  const faults = [
    ...notFlat(samples, 'of the soak'),
    ...(lives.length > 1 ? notFlat(longest, 'of the longest life') : []),
  ]
  const rate = median(samples.map((one) => one.load_per_s))
  if (!(rate >= LOAD_MIN * load_per_s))
    faults.push(`the load was ${rate.toFixed(0)} orders a second of ${load_per_s}`)
  return faults
}

export function isJudged(samples: readonly Sample[]): boolean {
  return samples.length >= 3 * THIRD_MIN
}

function notFlat(samples: readonly Sample[], where: string): string[] {
  if (!isJudged(samples)) return []
  const third = Math.floor(samples.length / 3)
  const [middle, last] = [samples.slice(-2 * third, -third), samples.slice(-third)]
  return Object.entries(FLAT).flatMap(([name, { times, share }]) => {
    const [before, after] = [middle, last].map((part) =>
      quantile(
        part.map((one) => one[name as keyof Sample]),
        share,
      ),
    )
    if (after! <= times * before!) return []
    return [`${name} rose from ${before!.toFixed(1)} to ${after!.toFixed(1)}, thirds ${where}`]
  })
}

/** Of the newest order of a note: `placing` and `cancelling` have no answer, `ready` is not sent. */
export type OrderState = 'ready' | 'placing' | 'open' | 'cancelling'
type Account = {
  slots: readonly { order_id: string; state: OrderState }[]
  /** Open orders in the list of the venue. */
  open: readonly Pick<Order, 'order_id'>[]
  /** Acknowledged by seq: `placing ID` or `cancelling ID`. */
  known: ReadonlyMap<number, string>
  /** Of the venue, from the first of them. */
  events: readonly Pick<AccountEvent, 'seq' | 'kind' | 'data'>[]
}

const MADE: Partial<Record<string, OrderState>> = {
  'order.accepted': 'placing',
  'order.cancelled': 'cancelling',
}

/** Differences of the venue from its acknowledgements: lost, changed or doubled. */
export function differences({ slots, open, known, events }: Account): string[] {
  const faults: string[] = []
  const rest = new Set(open.map(({ order_id }) => order_id))
  if (rest.size !== open.length) faults.push('an open order is listed twice')
  for (const { order_id, state } of slots) {
    const is_open = rest.delete(order_id)
    if (state === 'placing' || state === 'cancelling') continue
    if (is_open !== (state === 'open'))
      faults.push(`${order_id} is ${state} and at the venue open: ${is_open}`)
  }
  for (const order_id of rest) faults.push(`${order_id} is open and was cancelled, or never placed`)
  const seen = new Set<string>()
  const made = new Map<number, string>()
  for (const { seq, kind, data } of events) {
    if (MADE[kind] === undefined) continue
    const what = `${MADE[kind]} ${(data as Order).order_id}`
    if (seen.has(what)) faults.push(`${what} is twice among the events`)
    seen.add(what)
    made.set(seq, what)
  }
  for (const [seq, what] of known)
    if (made.get(seq) !== what)
      faults.push(`${what} was acknowledged at seq ${seq}, where ${made.get(seq)} is now`)
  return faults
}
