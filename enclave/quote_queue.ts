/** Serializes quotes and bounds the callers that wait: quotes use hardware that the whole host shares. */

import { Refusal } from '../protocol/refusals'

type Waiting = { since_ms: number; bounded: boolean; start: () => void; refuse: (error: Error) => void }

export class QuoteQueue {
  private readonly waiting: Waiting[] = []
  private busy = false
  /** Running average of a quote's duration; the initial value is that of hardware. */
  private average_ms = 40

  constructor(private readonly limits: { quote_waiting_max: number; quote_wait_ms: number }) {}

  /**
   * Runs `task` when its turn comes. The venue's own quotes (`own`) go first and are never rejected: evidence must not depend
   * on load from clients. @throws Refusal `quote_busy` with retry_after_ms when too many wait, or one waits too long.
   */
  async run<T>(task: () => Promise<T>, own = false): Promise<T> {
    if (this.busy) await this.turn(own)
    this.busy = true
    const started_ms = performance.now()
    try {
      return await task()
    } finally {
      this.average_ms += (performance.now() - started_ms - this.average_ms) / 8
      this.busy = false
      this.next()
    }
  }

  /** Rejects all waiting callers. */
  close(): void {
    for (const entry of this.waiting.splice(0)) entry.refuse(new Refusal('enclave_unavailable'))
  }

  private turn(own: boolean): Promise<void> {
    if (!own && this.waiting.filter((entry) => entry.bounded).length >= this.limits.quote_waiting_max) {
      throw this.refusal()
    }
    return new Promise((start, refuse) => {
      const entry = { since_ms: performance.now(), bounded: !own, start, refuse }
      if (own) this.waiting.unshift(entry)
      else this.waiting.push(entry)
    })
  }

  private next(): void {
    const oldest_ms = performance.now() - this.limits.quote_wait_ms
    for (let entry = this.waiting.shift(); entry !== undefined; entry = this.waiting.shift()) {
      if (!entry.bounded || entry.since_ms >= oldest_ms) {
        // Set before the waiter resumes, so that no other call runs in between.
        this.busy = true
        entry.start()
        return
      }
      entry.refuse(this.refusal())
    }
  }

  private refusal(): Refusal {
    return new Refusal('quote_busy', {
      retry_after_ms: Math.ceil(this.average_ms * (this.waiting.length + 1)),
    })
  }
}
