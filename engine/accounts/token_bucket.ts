/** Owns the token bucket: what a caller may still spend, refilled evenly by the monotonic clock. */

/** Starts full. Times are monotonic milliseconds and never go back. */
export class TokenBucket {
  private left: number
  private at_ms: number

  constructor(
    readonly capacity: number,
    readonly refill_per_s: number,
    now_ms: number,
  ) {
    this.left = capacity
    this.at_ms = now_ms
  }

  /** Takes `cost`; 0 when it was taken, else how many milliseconds to wait, having taken nothing. */
  take(cost: number, now_ms: number): number {
    this.refill(now_ms)
    if (this.left >= cost) {
      this.left -= cost
      return 0
    }
    return Math.max(1, Math.ceil(((cost - this.left) * 1000) / this.refill_per_s))
  }

  /** Whole tokens left. */
  get remaining(): number {
    return Math.floor(this.left)
  }

  /** A bucket of other limits that has spent as much as this one. */
  resized(capacity: number, refill_per_s: number, now_ms: number): TokenBucket {
    this.refill(now_ms)
    const bucket = new TokenBucket(capacity, refill_per_s, now_ms)
    bucket.left = Math.max(0, capacity - (this.capacity - this.left))
    return bucket
  }

  private refill(now_ms: number): void {
    if (now_ms <= this.at_ms) return
    this.left = Math.min(this.capacity, this.left + ((now_ms - this.at_ms) * this.refill_per_s) / 1000)
    this.at_ms = now_ms
  }
}
