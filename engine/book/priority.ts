/**
 * Owns the order in which orders of one price are served: older batch, then larger remainder, then ascending SHA-256 of
 * `tacit/tie/v1` ‖ seed ‖ order id (matching.md "Close of a batch", step 5).
 */
import { hash } from 'node:crypto'
import { compareBytes, concatBytes } from '../../protocol/bytes'
import type { Handles } from './ladder'
import type { OrderPool } from './order_pool'

const TIE_DOMAIN = new TextEncoder().encode('tacit/tie/v1')

/** A heap of the orders of one level; the hash is computed only for orders that tie, once each. */
export class PriorityQueue {
  private size = 0
  private hashes = new Map<number, Uint8Array>()

  constructor(
    private readonly pool: OrderPool,
    private readonly seed: Uint8Array,
    private readonly tieBytes: ((handle: number) => Uint8Array) | undefined,
    private readonly heap: Handles,
  ) {}

  /** Takes over the first `count` handles of the list given to the constructor. */
  load(count: number): void {
    this.size = count
    if (this.hashes.size > 0) this.hashes.clear()
    for (let at = (count >> 1) - 1; at >= 0; at--) this.sink(at)
  }

  /** Removes and returns the order served next. */
  pop(): number {
    const { list } = this.heap
    const first = list[0]!
    list[0] = list[--this.size]!
    this.sink(0)
    return first
  }

  private sink(from: number): void {
    const { list } = this.heap
    const moving = list[from]!
    let at = from
    for (;;) {
      let child = 2 * at + 1
      if (child >= this.size) break
      if (child + 1 < this.size && this.before(list[child + 1]!, list[child]!)) child++
      if (!this.before(list[child]!, moving)) break
      list[at] = list[child]!
      at = child
    }
    list[at] = moving
  }

  private before(a: number, b: number): boolean {
    const { arrival_batch, remaining } = this.pool
    const age = arrival_batch[a]! - arrival_batch[b]!
    if (age !== 0) return age < 0
    const size = remaining[a]! - remaining[b]!
    if (size !== 0) return size > 0
    return compareBytes(this.tieHash(a), this.tieHash(b)) < 0
  }

  private tieHash(handle: number): Uint8Array {
    let digest = this.hashes.get(handle)
    if (digest === undefined) {
      const id = this.tieBytes?.(handle) ?? this.pool.orderId(handle)
      digest = hash('sha256', concatBytes(TIE_DOMAIN, this.seed, id), 'buffer')
      this.hashes.set(handle, digest)
    }
    return digest
  }
}
