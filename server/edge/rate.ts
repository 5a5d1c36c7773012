/** Prices operations, limits frames and attestation quotes by token buckets, and writes the headers that report a limit. */

import type { ClockPort } from '../../engine/ports'
import type { LimitState, Session, Venue } from '../../engine/venue'
import { Refusal } from '../../protocol/refusals'
import { t } from '../../protocol/wire/values'
import { QUOTE_RATES } from '../limits'
import type { HeaderMap } from './headers'

/** Tokens an operation takes from the account's bucket; sockets and REST share the bucket. */
export const COST = {
  place: 1,
  cancel: 0.2,
  modify: 1.2,
  withdraw: 10,
  reshape: 10,
  read: 0.1,
} as const

/** The newest headers, as most say what the ones before said: a read takes a tenth of a token, and accounts share one policy. */
let newest = {
  capacity: 0,
  refill_per_s: 0,
  left: 0,
  full_s: 0,
  headers: { 'ratelimit-policy': '', ratelimit: '' },
}

/** draft-ietf-httpapi-ratelimit-headers: `q` tokens refill within `w` seconds; `r` remain, the bucket is full in `t` seconds. */
export function limitHeaders({ capacity, refill_per_s, remaining }: LimitState): Readonly<HeaderMap> {
  const is_policy = capacity === newest.capacity && refill_per_s === newest.refill_per_s
  const left = Math.max(0, Math.floor(remaining))
  const full_s = Math.ceil(Math.max(0, capacity - remaining) / refill_per_s)
  if (is_policy && left === newest.left && full_s === newest.full_s) return newest.headers
  const window_s = Math.max(1, Math.ceil(capacity / refill_per_s))
  const headers = {
    'ratelimit-policy': is_policy
      ? newest.headers['ratelimit-policy']
      : `"account";q=${Math.floor(capacity)};w=${window_s}`,
    ratelimit: `"account";r=${left};t=${full_s}`,
  }
  newest = { capacity, refill_per_s, left, full_s, headers }
  return headers
}

interface Bucket {
  /** Throws the bucket's code with `retry_after_ms` when fewer than `cost` tokens are left. */
  take(cost: number): void
}

/** A token bucket on the monotonic clock. */
export function openBucket(
  args: { capacity: number; refill_per_s: number; code: 'quote_busy' | 'rate_limited' },
  clock: ClockPort,
): Bucket {
  let tokens = args.capacity
  let at_ms = clock.monotonicMs()
  return {
    take(cost) {
      const now_ms = clock.monotonicMs()
      tokens = Math.min(args.capacity, tokens + ((now_ms - at_ms) / 1000) * args.refill_per_s)
      at_ms = now_ms
      if (tokens < cost) {
        const retry_after_ms = Math.ceil(((cost - tokens) / args.refill_per_s) * 1000)
        throw new Refusal(args.code, { retry_after_ms })
      }
      tokens -= cost
    },
  }
}

export type QuoteBuckets = { anonymous: Bucket; bearer: Bucket }

export function openQuoteBuckets(clock: ClockPort): QuoteBuckets {
  return {
    anonymous: openBucket({ ...QUOTE_RATES.anonymous, code: 'quote_busy' }, clock),
    bearer: openBucket({ ...QUOTE_RATES.bearer, code: 'quote_busy' }, clock),
  }
}

export const Nonce = (description: string) =>
  t.Optional(
    t.String({
      pattern: '^[0-9a-f]{64}$',
      description: `Chosen by the caller, 32 bytes of lowercase hex. ${description}`,
    }),
  )

/** A quote of one caller alone costs hardware time, so it is limited. */
export function takeQuote({ venue, quotes, session }: QuoteCall): void {
  if (session !== undefined) venue.takeLimit(session, COST.place)
  const { bearer, anonymous } = quotes
  const bucket = session === undefined ? anonymous : bearer
  bucket.take(1)
}
type QuoteCall = {
  venue: Pick<Venue, 'takeLimit'>
  quotes: QuoteBuckets
  session: Session | undefined
}
