/** Owns the token bucket: what a caller may still spend, refilled evenly by the monotonic clock. */

/**
 * Starts full. Times are monotonic milliseconds. Counts in thousandths of a token: `refill_per_s` whole tokens are as
 * many thousandths per millisecond, so nothing is ever rounded.
 */
export class TokenBucket {
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

  /** Takes `cost` (up to three decimals); 0 when it was taken, else how many milliseconds to wait, nothing taken. */
  take(cost: number, now_ms: number): number {
    this.refill(now_ms)
    const wanted = Math.round(cost * 1000)
    if (this.left >= wanted) {
      this.left -= wanted
      return 0
    }
    return Math.ceil((wanted - this.left) / this.refill_per_s)
  }

  /** Whole tokens left. */
  get remaining(): number {
    return Math.floor(this.left / 1000)
  }

  /** A bucket of other limits that has spent as much as this one. */
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
