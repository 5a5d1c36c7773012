/**
 * Owns the order in which orders of one price are served: older batch, then larger remainder, then ascending SHA-256 of
 * `tacit/tie/v1` ‖ seed ‖ order id (matching.md "Close of a batch", step 5).
 */
import { hash } from 'node:crypto'
import { compareBytes, concatBytes } from '../../protocol/bytes'
import type { OrderPool } from './order_pool'

export type TieTerms = {
  /** 32-byte batch seed that breaks the last ties. */
  seed: Uint8Array
  /** The bytes hashed for an order in a tie; its 16-byte order id when absent. */
  tieBytes?: ((handle: number) => Uint8Array) | undefined
}

const TIE_DOMAIN = new TextEncoder().encode('tacit/tie/v1')
/** Runs up to this length are sorted by insertion, longer ones are merged. */
const INSERTION_MAX = 16

let merged = new Int32Array(1024)

/** Serving order for one auction. Hashes are computed only for orders that tie, once per auction. */
export class Priority {
  private readonly tie_keys = new Map<number, number>()
  /** Domain and seed, once per auction; the id's place is written for each order. */
  private message: Uint8Array | undefined

  constructor(
    private readonly pool: OrderPool,
    private readonly terms: TieTerms,
  ) {}

  /**
   * Sorts the handles `list[from..to)` of one price level in place. A level lists its newest order first, so turning it
   * round leaves little to do for orders of different batches.
   */
  sort(list: Int32Array, from: number, to: number): void {
    const { arrival_batch, remaining } = this.pool
    turnRound(list, from, to)
    for (let start = from; start < to; start += INSERTION_MAX) {
      const end = Math.min(to, start + INSERTION_MAX)
      for (let at = start + 1; at < end; at++) {
        const handle = list[at]!
        const batch = arrival_batch[handle]!
        const lots = remaining[handle]!
        let place = at
        for (; place > start; place--) {
          const other = list[place - 1]!
          const age = batch - arrival_batch[other]!
          if (age > 0) break
          const size = lots - remaining[other]!
          if (age === 0 && (size < 0 || (size === 0 && !this.winsTie(handle, other)))) break
          list[place] = other
        }
        list[place] = handle
      }
    }
    for (let width = INSERTION_MAX; width < to - from; width *= 2) this.merge(list, from, to, width)
  }

  private merge(list: Int32Array, from: number, to: number, width: number): void {
    if (merged.length < to - from) merged = new Int32Array(2 * (to - from))
    let out = 0
    for (let start = from; start < to; start += 2 * width) {
      let left = start
      let right = Math.min(to, start + width)
      const middle = right
      const end = Math.min(to, start + 2 * width)
      const sorted = right === end || this.before(list[middle - 1]!, list[middle]!)
      while (!sorted && left < middle && right < end) {
        merged[out++] = this.before(list[right]!, list[left]!) ? list[right++]! : list[left++]!
      }
      while (left < middle) merged[out++] = list[left++]!
      while (right < end) merged[out++] = list[right++]!
    }
    for (let at = 0; at < out; at++) list[from + at] = merged[at]!
  }

  private before(a: number, b: number): boolean {
    const { arrival_batch, remaining } = this.pool
    const age = arrival_batch[a]! - arrival_batch[b]!
    if (age !== 0) return age < 0
    const size = remaining[a]! - remaining[b]!
    return size === 0 ? this.winsTie(a, b) : size > 0
  }

  private winsTie(a: number, b: number): boolean {
    const difference = this.tieKey(a) - this.tieKey(b)
    if (difference !== 0) return difference < 0
    return compareBytes(this.tieHash(a), this.tieHash(b)) < 0
  }

  /** The first 48 bits of the hash: enough to decide all but one tie in 10^14. */
  private tieKey(handle: number): number {
    let key = this.tie_keys.get(handle)
    if (key === undefined) {
      key = this.tieHash(handle).readUIntBE(0, 6)
      this.tie_keys.set(handle, key)
    }
    return key
  }

  private tieHash(handle: number): Buffer {
    const { seed, tieBytes } = this.terms
    if (tieBytes !== undefined)
      return hash('sha256', concatBytes(TIE_DOMAIN, seed, tieBytes(handle)), 'buffer')
    this.message ??= concatBytes(TIE_DOMAIN, seed, new Uint8Array(16))
    this.message.set(this.pool.orderId(handle), TIE_DOMAIN.length + seed.length)
    return hash('sha256', this.message, 'buffer')
  }
}

function turnRound(list: Int32Array, from: number, to: number): void {
  for (let low = from, high = to - 1; low < high; low++, high--) {
    const handle = list[low]!
    list[low] = list[high]!
    list[high] = handle
  }
}
