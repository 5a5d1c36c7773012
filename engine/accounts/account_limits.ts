/** Owns what each account may still ask for: one token bucket per account, by its record. */
import { Refusal } from '../../protocol/refusals'
import type { ClockPort } from '../ports'
import type { LimitState } from '../venue'
import type { Registry } from './registry'
import { TokenBucket } from './token_bucket'

export class AccountLimits {
  /** Bounded by the accounts of the registry. */
  private readonly buckets = new Map<string, TokenBucket>()

  constructor(
    private readonly registry: Registry,
    private readonly clock: ClockPort,
  ) {}

  /** Throws `rate_limited` with the wait; having taken nothing. */
  take(account_id: string, cost: number): LimitState {
    const bucket = this.buckets.get(account_id) ?? this.open(account_id)
    const retry_after_ms = bucket.take(cost, this.clock.monotonicMs())
    if (retry_after_ms > 0) throw new Refusal('rate_limited', { retry_after_ms })
    const { capacity, refill_per_s, remaining } = bucket
    return { capacity, refill_per_s, remaining, retry_after_ms }
  }

  /** Follows a newer record; what was spent stays spent. */
  follow(account_id: string): void {
    const bucket = this.buckets.get(account_id)
    const account = this.registry.get(account_id)
    if (bucket === undefined || account === undefined) return
    const { rate_capacity, rate_refill_per_s } = account.record
    this.buckets.set(account_id, bucket.resized(rate_capacity, rate_refill_per_s, this.clock.monotonicMs()))
  }

  private open(account_id: string): TokenBucket {
    const account = this.registry.get(account_id)
    if (account === undefined) throw new Refusal('token_invalid')
    const { rate_capacity, rate_refill_per_s } = account.record
    const bucket = new TokenBucket(rate_capacity, rate_refill_per_s, this.clock.monotonicMs())
    this.buckets.set(account_id, bucket)
    return bucket
  }
}
