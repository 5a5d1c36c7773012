/**
 * Owns the order in which orders of one price are served: older batch, then larger remainder, then ascending SHA-256 of
 * `tacit/tie/v1` ‖ seed ‖ order id (matching.md "Close of a batch", step 5).
 */
import { compareBytes, concatBytes } from '../../protocol/bytes'
import type { OrderPool } from './order_pool'
import { sortByKey } from './sort_by_key'

export type TieTerms = {
  /** 32-byte batch seed that breaks the last ties. */
  seed: Uint8Array
  /** The bytes hashed for an order in a tie; its 16-byte order id when absent. */
  tieBytes?: ((handle: number) => Uint8Array) | undefined
}

const TIE_DOMAIN = new TextEncoder().encode('tacit/tie/v1')

/** Keys of the orders of one level by age and size, and of those that tie by their hashes. */
let ranks = new Float64Array(256)
let hashes = new Float64Array(256)
const digest = new Uint8Array(32)
/** Keys of hashes by handle, each with the auction it was made in. */
let known = new Float64Array(0)
let auctions = 0

/** Serving order for one auction. Hashes are computed only for orders that tie. */
export class Priority {
  private readonly auction = ++auctions
  /** Domain, seed and the place of an order id, with the id's four words in view. */
  private message: { bytes: Uint8Array; id: Uint32Array } | undefined

  /** @param again whether levels are sorted more than once: hashes are kept then, which costs more than making one */
  constructor(
    private readonly pool: OrderPool,
    private readonly terms: TieTerms,
    private readonly again = false,
  ) {}

  /** Sorts the handles `list[from..to)` of one price level in place. */
  sort(list: Int32Array, from: number, to: number): void {
    const count = to - from
    if (count < 2) return
    turnRound(list, from, to)
    if (ranks.length < count) {
      ranks = new Float64Array(2 * count)
      hashes = new Float64Array(2 * count)
    }
    this.sortByAgeAndSize(list, from, count)
    for (let start = 0; start < count; ) {
      const rank = ranks[start]!
      let end = start + 1
      while (end < count && ranks[end] === rank) end++
      if (end - start > 1) this.sortTied(list, from + start, end - start)
      start = end
    }
  }

  /** By one number that holds age and size, or, where that would not be exact, by size and then, stably, by age. */
  private sortByAgeAndSize(list: Int32Array, from: number, count: number): void {
    const { arrival_batch, remaining } = this.pool
    let oldest = Number.MAX_SAFE_INTEGER
    let newest = 0
    let largest = 0
    for (let at = 0; at < count; at++) {
      const handle = list[from + at]!
      const batch = arrival_batch[handle]!
      const lots = remaining[handle]!
      if (batch < oldest) oldest = batch
      if (batch > newest) newest = batch
      if (lots > largest) largest = lots
      ranks[at] = lots
    }
    const sizes = largest + 1
    const exact = (newest - oldest + 1) * sizes <= Number.MAX_SAFE_INTEGER
    for (let at = 0; at < count; at++) ranks[at] = largest - ranks[at]!
    if (exact && newest > oldest) {
      for (let at = 0; at < count; at++) ranks[at]! += (arrival_batch[list[from + at]!]! - oldest) * sizes
    }
    sortByKey(list, from, ranks, count)
    if (exact) return
    for (let at = 0; at < count; at++) ranks[at] = arrival_batch[list[from + at]!]! - oldest
    sortByKey(list, from, ranks, count)
    this.numberRanks(list, from, count)
  }

  /** Of orders sorted by age and size: one number for all that are equal in both. */
  private numberRanks(list: Int32Array, from: number, count: number): void {
    const { arrival_batch, remaining } = this.pool
    let rank = 0
    ranks[0] = rank
    for (let at = 1; at < count; at++) {
      const handle = list[from + at]!
      const before = list[from + at - 1]!
      if (remaining[handle] !== remaining[before] || arrival_batch[handle] !== arrival_batch[before]) rank++
      ranks[at] = rank
    }
  }

  private sortTied(list: Int32Array, from: number, count: number): void {
    for (let at = 0; at < count; at++) hashes[at] = this.hashKey(list[from + at]!)
    sortByKey(list, from, hashes, count)
    for (let at = 1; at < count; at++) {
      if (hashes[at] !== hashes[at - 1]) continue
      this.sortByWholeHash(list, from, count)
      return
    }
  }

  /** Two keys among them are equal. */
  private sortByWholeHash(list: Int32Array, from: number, count: number): void {
    const tied = Array.from(list.subarray(from, from + count), (handle) => {
      return { handle, hash: this.hash(handle, new Uint8Array(32)) }
    })
    tied.sort((a, b) => compareBytes(a.hash, b.hash))
    for (let at = 0; at < count; at++) list[from + at] = tied[at]!.handle
  }

  /** The first 48 bits of the hash: enough to decide all but one tie in 10^14. */
  private hashKey(handle: number): number {
    if (!this.again) return keyOf(this.hash(handle, digest))
    if (2 * handle + 1 >= known.length) growKnown(2 * (this.pool.capacity + 1))
    if (known[2 * handle + 1] !== this.auction) {
      known[2 * handle] = keyOf(this.hash(handle, digest))
      known[2 * handle + 1] = this.auction
    }
    return known[2 * handle]!
  }

  private hash(handle: number, into: Uint8Array): Uint8Array {
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

function keyOf(hash: Uint8Array): number {
  let key = 0
  for (let at = 0; at < 6; at++) key = key * 256 + hash[at]!
  return key
}

function growKnown(length: number): void {
  const larger = new Float64Array(length)
  larger.set(known)
  known = larger
}

/** A level lists its newest order first: turned round, its ages are nearly sorted. */
function turnRound(list: Int32Array, from: number, to: number): void {
  for (let low = from, high = to - 1; low < high; low++, high--) {
    const handle = list[low]!
    list[low] = list[high]!
    list[high] = handle
  }
}
