/** Callers waiting for a journal seq to become durable, released in order. */

type Waiter = { seq: number; resolve: () => void; reject: (reason: Error) => void }

export class Waiters {
  /** Ascending by seq: callers wait for the newest executed record, which only grows. */
  private waiting: Waiter[] = []

  at(seq: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ seq, resolve, reject })
    })
  }

  releaseUpTo(seq: number): void {
    const first_later = this.waiting.findIndex((waiter) => waiter.seq > seq)
    const ready = this.waiting.splice(0, first_later === -1 ? this.waiting.length : first_later)
    for (const waiter of ready) waiter.resolve()
  }

  rejectAll(reason: Error): void {
    for (const waiter of this.waiting.splice(0)) waiter.reject(reason)
  }
}
