/** Limits requests by a token bucket per account, and wrong secrets by buckets shared among API keys. */

import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import type { AccountBook, ClockPort } from '../ports'
import type { Caller, LimitState } from '../venue'
import { keyed } from './login'

/**
 * Starts full and refills evenly. Times are monotonic milliseconds. Counts thousandths of a token: `refill_per_s`
 * tokens per second are as many thousandths per millisecond, so refills are exact.
 */
class TokenBucket {
  private left: number
  private at_ms: number

  /** Both limits are integers. */
  constructor(
    readonly capacity: number,
    readonly refill_per_s: number,
    now_ms: number,
  ) {
    this.left = capacity * 1000
    this.at_ms = Math.floor(now_ms)
  }

  /** Takes `cost` (up to three decimals) and returns 0, or takes nothing and returns the milliseconds to wait. */
  take(cost: number, now_ms: number): number {
    this.refill(now_ms)
    const wanted = Math.round(cost * 1000)
    if (this.left >= wanted) {
      this.left -= wanted
      return 0
    }
    return Math.ceil((wanted - this.left) / this.refill_per_s)
  }

  /** Takes `cost` in any case, also below zero. */
  charge(cost: number, now_ms: number): void {
    this.refill(now_ms)
    this.left -= Math.ceil(cost * 1000)
  }

  /** Whole tokens left, below zero when a charge has taken more than there were. */
  get remaining(): number {
    return Math.floor(this.left / 1000)
  }

  /** A bucket with other limits and the same amount spent. */
  resized(capacity: number, refill_per_s: number, now_ms: number): TokenBucket {
    this.refill(now_ms)
    const bucket = new TokenBucket(capacity, refill_per_s, now_ms)
    bucket.left = Math.max(0, (capacity - this.capacity) * 1000 + this.left)
    return bucket
  }

  private refill(now_ms: number): void {
    const elapsed_ms = Math.floor(now_ms) - this.at_ms
    if (elapsed_ms <= 0) return
    this.left = Math.min(this.capacity * 1000, this.left + elapsed_ms * this.refill_per_s)
    this.at_ms += elapsed_ms
  }
}

/**
 * Limits wrong credentials per API key. Counts failures only, so correct credentials are never limited. API keys share
 * a fixed number of buckets by a keyed hash: invented keys use no memory, and a caller cannot aim at the bucket of
 * another key.
 */
export class WrongSecrets {
  private readonly buckets: (TokenBucket | undefined)[] = []

  constructor(
    private readonly credential_key: Uint8Array,
    private readonly clock: ClockPort,
  ) {}

  /** Counts one failure; returns 0 below the limit, else the milliseconds to wait. */
  count(api_key: string): number {
    const place =
      Buffer.from(keyed(this.credential_key, Buffer.from(api_key))).readUInt32BE() %
      LIMITS.wrong_secret_buckets
    const now_ms = this.clock.monotonicMs()
    const bucket =
      this.buckets[place] ??
      new TokenBucket(LIMITS.wrong_secrets_capacity, LIMITS.wrong_secrets_refill_per_s, now_ms)
    this.buckets[place] = bucket
    return bucket.take(1, now_ms)
  }
}

/**
 * Two token buckets per account with the limits of its record, one for trading and one for credentials that only read: the
 * holder of one of these cannot keep the trader from cancelling, or from revoking it. Spent tokens stay spent when limits
 * change.
 */
export class AccountLimits {
  /** By access and account; bounded by the accounts of the venue. */
  private readonly buckets = { read: new Map<string, TokenBucket>(), trade: new Map<string, TokenBucket>() }

  constructor(
    private readonly book: Pick<AccountBook, 'limits'>,
    private readonly clock: ClockPort,
  ) {}

  /** Throws `rate_limited` with the wait, and takes nothing then; `token_invalid` for an account without a record. */
  take(caller: Caller, cost: number): LimitState {
    const now_ms = this.clock.monotonicMs()
    const bucket = this.bucket(caller, now_ms)
    const retry_after_ms = bucket.take(cost, now_ms)
    if (retry_after_ms > 0) throw new Refusal('rate_limited', { retry_after_ms })
    const { capacity, refill_per_s, remaining } = bucket
    return { capacity, refill_per_s, remaining, retry_after_ms }
  }

  /** Charges a read its actual cost; throws `token_invalid` for an account without a record. */
  charge(caller: Caller, units: number): LimitState {
    const now_ms = this.clock.monotonicMs()
    const bucket = this.bucket(caller, now_ms)
    bucket.charge(units * LIMITS.read_unit_tokens, now_ms)
    const { capacity, refill_per_s, remaining } = bucket
    return { capacity, refill_per_s, remaining, retry_after_ms: 0 }
  }

  private bucket({ access, account_id }: Caller, now_ms: number): TokenBucket {
    const limits = this.book.limits(account_id)
    if (limits === undefined) throw new Refusal('token_invalid')
    const { rate_capacity, rate_refill_per_s } = limits
    const buckets = this.buckets[access]
    const known = buckets.get(account_id)
    if (known !== undefined && known.capacity === rate_capacity && known.refill_per_s === rate_refill_per_s)
      return known
    const bucket =
      known?.resized(rate_capacity, rate_refill_per_s, now_ms) ??
      new TokenBucket(rate_capacity, rate_refill_per_s, now_ms)
    buckets.set(account_id, bucket)
    return bucket
  }
}
