/** Lets one quote be made at a time and bounds who waits: quotes use hardware that the whole host shares. */
import { Refusal } from '../protocol/refusals'

type Waiting = { since_ms: number; bounded: boolean; start: () => void; refuse: (error: Error) => void }

export class QuoteQueue {
  private readonly waiting: Waiting[] = []
  private busy = false
  /** Running average of one quote's duration; the start value is what hardware takes. */
  private average_ms = 40

  constructor(private readonly limits: { quote_waiting_max: number; quote_wait_ms: number }) {}

  /**
   * Runs `task` when its turn comes. The venue's own quotes (`own`) go first and are never refused: evidence must not
   * depend on how many strangers ask. @throws Refusal `quote_busy` with retry_after_ms when too many wait or too long.
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

  /** Refuses everyone who still waits. */
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
        // Taken before the waiter resumes, so that nobody else slips in between.
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
