/** Owns how often wrong credentials are answered plainly: a small bucket per api key, in memory of fixed size. */
import { LIMITS } from '../limits'
import type { ClockPort } from '../ports'
import { keyed } from './keyed'
import { TokenBucket } from './token_bucket'

const CAPACITY = 10
const REFILL_PER_S = 1

/**
 * Counts failures only, so it never stands in the way of right credentials. Api keys share buckets by a keyed hash:
 * made-up keys cannot fill memory, and nobody can choose whose bucket they meet.
 */
export class WrongSecrets {
  private readonly buckets: (TokenBucket | undefined)[] = []

  constructor(
    private readonly credential_key: Uint8Array,
    private readonly clock: ClockPort,
  ) {}

  /** Counts one failure: 0 while the bucket lasts, else milliseconds to wait. */
  count(api_key: string): number {
    const place =
      Buffer.from(keyed(this.credential_key, Buffer.from(api_key))).readUInt32BE() %
      LIMITS.wrong_secret_buckets
    const now_ms = this.clock.monotonicMs()
    const bucket = this.buckets[place] ?? new TokenBucket(CAPACITY, REFILL_PER_S, now_ms)
    this.buckets[place] = bucket
    return bucket.take(1, now_ms)
  }
}
