/** Runs long reads in slices: one at a time, accounts in turn, each paid for by its account and followed by a rest. */

import { LIMITS } from '../limits'
import type { AccountsPort } from '../ports'
import type { History } from './contract'

export type Charge = AccountsPort['chargeRead']
type Caller = Parameters<Charge>[0]

type Pace = { nowMs: () => number; sleep: (ms: number) => Promise<void> }

export class Slices {
  /** Reads that wait, by account; the account that was read last comes last. At most one for each of its streams. */
  private readonly waiting = new Map<string, (() => void)[]>()
  private working = false

  constructor(
    private readonly history: Pick<History, 'units'>,
    private readonly charge: Charge,
    private readonly pace: Pace = { nowMs: () => performance.now(), sleep: Bun.sleep },
  ) {}

  /**
   * Resolves with the result of `read`, after a wait while the caller's bucket is less than half full: the other half is for
   * commands. Rejects with its error.
   */
  async run<T>(caller: Caller, read: () => T): Promise<T> {
    const { account_id } = caller
    await new Promise<void>((resolve) => {
      const own = this.waiting.get(account_id) ?? []
      own.push(resolve)
      this.waiting.set(account_id, own)
      if (!this.working) queueMicrotask(() => void this.work())
      this.working = true
    })
    const before = this.history.units()
    const value = read()
    const { remaining, capacity, refill_per_s } = this.charge(caller, this.history.units() - before)
    const missing = capacity / 2 - remaining
    if (missing > 0) await this.pace.sleep((1_000 * missing) / refill_per_s)
    return value
  }

  private async work(): Promise<void> {
    const { nowMs, sleep } = this.pace
    for (let next = this.next(); next !== undefined; next = this.next()) {
      const began_ms = nowMs()
      next()
      // The read runs as soon as this function waits.
      await Promise.resolve()
      await sleep(Math.max(1, LIMITS.read_rest_factor * (nowMs() - began_ms)))
    }
    this.working = false
  }

  private next(): (() => void) | undefined {
    const [first] = this.waiting
    if (first === undefined) return undefined
    const [account_id, own] = first
    this.waiting.delete(account_id)
    const next = own.shift()
    if (own.length > 0) this.waiting.set(account_id, own)
    return next
  }
}
