/** Spaces attempts that fail: strangers choose accounts on which every attempt fails, and each attempt costs a fee. */
import { LIMITS } from '../../limits'

export class Patience<K> {
  private readonly failures = new Map<K, { count: number; slot: number }>()

  failed(key: K, slot: number): void {
    this.failures.set(key, { count: this.count(key) + 1, slot })
  }

  count(key: K): number {
    return this.failures.get(key)?.count ?? 0
  }

  /** The wait doubles with each failure. */
  mayTry(key: K, slot: number): boolean {
    const failure = this.failures.get(key)
    if (!failure) return true
    return (
      slot - failure.slot >=
      LIMITS.exits_look_slots * 2 ** Math.min(failure.count, LIMITS.retry_doublings_max)
    )
  }

  /** Forgets all other keys. */
  keep(keys: ReadonlySet<K>): void {
    for (const key of this.failures.keys()) if (!keys.has(key)) this.failures.delete(key)
  }
}
