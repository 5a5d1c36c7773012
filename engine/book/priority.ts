/**
 * Owns the order in which orders of one price are served: older batch, then larger remainder, then ascending SHA-256 of
 * `tacit/tie/v1` ‖ seed ‖ order id (matching.md "Close of a batch", step 5).
 */
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
let unsorted = new Int32Array(1024)
let ranks = new Float64Array(1024)
const digest = new Uint8Array(32)
/** Keys of the orders that tied, by handle; a key counts for the auction it was made in. */
const ties = { key: new Float64Array(0), auction: new Float64Array(0) }
let auctions = 0

/** Serving order for one auction. Hashes are computed only for orders that tie, once per auction. */
export class Priority {
  private readonly auction = ++auctions
  /** Domain, seed and the place of an order id, with the id's four words in view. */
  private message: { bytes: Uint8Array; id: Uint32Array } | undefined

  constructor(
    private readonly pool: OrderPool,
    private readonly terms: TieTerms,
  ) {}

  /** Sorts the handles `list[from..to)` of one price level in place. */
  sort(list: Int32Array, from: number, to: number): void {
    if (to - from < 2) return
    if (to - from > INSERTION_MAX && this.sortByRank(list, from, to)) return
    this.sortByComparison(list, from, to)
  }

  /**
   * Age, size and place as one exact number per order, sorted by the runtime; then the runs that tie by their hashes. False,
   * and nothing done, when the numbers of the level are too large for that.
   */
  private sortByRank(list: Int32Array, from: number, to: number): boolean {
    const { arrival_batch, remaining } = this.pool
    const count = to - from
    let oldest = Number.POSITIVE_INFINITY
    let newest = 0
    let largest = 0
    if (unsorted.length < count) unsorted = new Int32Array(2 * count)
    if (ranks.length < count) ranks = new Float64Array(2 * count)
    for (let at = 0; at < count; at++) {
      const handle = list[from + at]!
      unsorted[at] = handle
      const batch = arrival_batch[handle]!
      if (batch < oldest) oldest = batch
      if (batch > newest) newest = batch
      const lots = remaining[handle]!
      if (lots > largest) largest = lots
      ranks[at] = lots
    }
    if ((newest - oldest + 1) * (largest + 1) * count > Number.MAX_SAFE_INTEGER) return false
    for (let at = 0; at < count; at++) {
      const age = newest === oldest ? 0 : arrival_batch[unsorted[at]!]! - oldest
      ranks[at] = (age * (largest + 1) + largest - ranks[at]!) * count + at
    }
    ranks.subarray(0, count).sort()
    let run_from = from
    let run_rank = -1
    for (let at = 0; at < count; at++) {
      const rank = Math.floor(ranks[at]! / count)
      list[from + at] = unsorted[ranks[at]! - rank * count]!
      if (rank === run_rank) continue
      if (from + at - run_from > 1) this.sortByComparison(list, run_from, from + at)
      run_from = from + at
      run_rank = rank
    }
    if (to - run_from > 1) this.sortByComparison(list, run_from, to)
    return true
  }

  /** A level lists its newest order first, so turning it round leaves little to do for orders of different batches. */
  private sortByComparison(list: Int32Array, from: number, to: number): void {
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
    return compareBytes(this.tieHash(a, new Uint8Array(32)), this.tieHash(b, new Uint8Array(32))) < 0
  }

  /** The first 48 bits of the hash: enough to decide all but one tie in 10^14. */
  private tieKey(handle: number): number {
    if (ties.auction[handle] === this.auction) return ties.key[handle]!
    const hash = this.tieHash(handle, digest)
    let key = 0
    for (let at = 0; at < 6; at++) key = key * 256 + hash[at]!
    if (handle >= ties.key.length) growTies(this.pool.capacity + 1)
    ties.key[handle] = key
    ties.auction[handle] = this.auction
    return key
  }

  private tieHash(handle: number, into: Uint8Array): Uint8Array {
    const { seed, tieBytes } = this.terms
    if (tieBytes !== undefined) {
      Bun.SHA256.hash(concatBytes(TIE_DOMAIN, seed, tieBytes(handle)), into)
      return into
    }
    if (this.message === undefined) {
      const bytes = concatBytes(TIE_DOMAIN, seed, new Uint8Array(16))
      this.message = { bytes, id: new Uint32Array(bytes.buffer, TIE_DOMAIN.length + seed.length, 4) }
    }
    this.pool.readId(handle, this.message.id)
    Bun.SHA256.hash(this.message.bytes, into)
    return into
  }
}

function growTies(length: number): void {
  const { key, auction } = ties
  ties.key = new Float64Array(length)
  ties.key.set(key)
  ties.auction = new Float64Array(length)
  ties.auction.set(auction)
}

function turnRound(list: Int32Array, from: number, to: number): void {
  for (let low = from, high = to - 1; low < high; low++, high--) {
    const handle = list[low]!
    list[low] = list[high]!
    list[high] = handle
  }
}
