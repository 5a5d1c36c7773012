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

/** Up to this many orders are compared one by one, more by numbers made of what they are compared by. */
const FEW = 16

let keys = new Float64Array(256)
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
    turnRound(list, from, to)
    if (to - from <= FEW) this.sortFew(list, from, to)
    else this.sortMany(list, from, to)
  }

  /** By insertion, comparing orders directly: most levels hold a few orders. */
  private sortFew(list: Int32Array, from: number, to: number): void {
    const { arrival_batch, remaining } = this.pool
    for (let at = from + 1; at < to; at++) {
      const handle = list[at]!
      const batch = arrival_batch[handle]!
      const lots = remaining[handle]!
      let place = at
      for (; place > from; place--) {
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

  /** By age and size in numbers, then those equal in both by their hashes. */
  private sortMany(list: Int32Array, from: number, to: number): void {
    const { arrival_batch, remaining } = this.pool
    this.sortByAgeAndSize(list, from, to)
    for (let start = from; start < to; ) {
      const first = list[start]!
      let end = start + 1
      for (; end < to; end++) {
        const other = list[end]!
        if (remaining[other] !== remaining[first] || arrival_batch[other] !== arrival_batch[first]) break
      }
      if (end - start > FEW) this.sortTied(list, start, end)
      else if (end - start > 1) this.sortFew(list, start, end)
      start = end
    }
  }

  /** By one number that holds age and size, or, where that would not be exact, by size and then, stably, by age. */
  private sortByAgeAndSize(list: Int32Array, from: number, to: number): void {
    const { arrival_batch, remaining } = this.pool
    const count = to - from
    if (keys.length < count) keys = new Float64Array(2 * count)
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
      keys[at] = lots
    }
    const sizes = largest + 1
    const exact = (newest - oldest + 1) * sizes <= Number.MAX_SAFE_INTEGER
    for (let at = 0; at < count; at++) {
      const age = exact ? arrival_batch[list[from + at]!]! - oldest : 0
      keys[at] = age * sizes + largest - keys[at]!
    }
    sortByKey(list, from, keys, count)
    if (exact) return
    for (let at = 0; at < count; at++) keys[at] = arrival_batch[list[from + at]!]! - oldest
    sortByKey(list, from, keys, count)
  }

  private sortTied(list: Int32Array, from: number, to: number): void {
    const count = to - from
    for (let at = 0; at < count; at++) keys[at] = this.tieKey(list[from + at]!)
    sortByKey(list, from, keys, count)
    // Orders whose keys are equal too stand together now.
    this.sortFew(list, from, to)
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

/** A level lists its newest order first: turned round, its ages are nearly sorted. */
function turnRound(list: Int32Array, from: number, to: number): void {
  for (let low = from, high = to - 1; low < high; low++, high--) {
    const handle = list[low]!
    list[low] = list[high]!
    list[high] = handle
  }
}
