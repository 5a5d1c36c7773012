/** Decides how many settlement batches may be on their way behind the next one: as many as land in order. */
import { LIMITS } from '../limits'

/**
 * An overtaking, batches that were executed before a predecessor, costs the fees of all that were behind it: each halves
 * the window. Each run of batches that landed in order doubles it again. On a cluster that reorders batches go one by one.
 */
export class AheadWindow {
  #size: number = LIMITS.batches_ahead_max
  #in_order = 0
  #landed = 0
  /** Whatever fails up to this batch belongs to an overtaking that has been counted. */
  #counted = 0

  get size(): number {
    return this.#size
  }

  /** @param batch_id newest batch the confirmed chain has; lower after a fork, which says nothing about the order */
  landed(batch_id: number): void {
    if (batch_id <= this.#landed) return
    this.#in_order += batch_id - this.#landed
    this.#landed = batch_id
    if (this.#in_order < LIMITS.batches_in_order) return
    this.#in_order = 0
    this.#size = Math.min(LIMITS.batches_ahead_max, Math.max(1, 2 * this.#size))
  }

  /** @param batch_id that failed @param newest batch that was on its way then */
  overtaken(batch_id: number, newest: number): void {
    if (batch_id <= this.#counted) return
    this.#counted = newest
    this.#in_order = 0
    this.#size = Math.floor(this.#size / 2)
  }
}
