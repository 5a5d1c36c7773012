/**
 * Sorts the orders of one price into serving order: older batch, then larger remainder, then ascending SHA-256 of
 * `tacit/tie/v1` ‖ seed ‖ order id (matching.md "Close of a batch", step 5).
 */
import { compareBytes, concatBytes } from '../../../protocol/bytes'
import { sha256Into } from '../../../protocol/sha256'
import type { OrderPool } from './order_pool'

export type TieTerms = {
  /** 32-byte batch seed that breaks the last ties. */
  seed: Uint8Array
  /** The bytes hashed for an order in a tie; its 16-byte order id when absent. */
  tieBytes?: ((handle: number) => Uint8Array) | undefined
}

const TIE_DOMAIN = new TextEncoder().encode('tacit/tie/v1')
const SEED_BYTES = 32

/** Buffers for the level being sorted: orders, ages, keys by age and size; for orders that tie, ids and keys by hash. */
let handles = new Int32Array(0)
let ages = new Float64Array(0)
let ranks = new Float64Array(0)
let ids = new Uint32Array(0)
let hashes = new Float64Array(0)
/** Start and end of each run of orders that tie. */
let starts = new Int32Array(0)
let ends = new Int32Array(0)
/** The hashed message of an order: domain, seed and the order id; the id is also accessible as four words. */
const message = concatBytes(TIE_DOMAIN, new Uint8Array(SEED_BYTES + 16))
const message_id = new Uint32Array(message.buffer, TIE_DOMAIN.length + SEED_BYTES, 4)
/** The auction whose seed is in the message. */
let message_auction = 0
const digest = new Uint8Array(32)
let auctions = 0

/** Serving order for one auction. Hashes are computed only for orders that tie. */
export class Priority {
  private readonly auction = ++auctions

  constructor(
    private readonly pool: OrderPool,
    private readonly terms: TieTerms,
  ) {}

  /** Sorts the handles `list[from..to)` of one price level in place. */
  sort(list: Int32Array, from: number, to: number): void {
    const count = to - from
    if (count < 2) return
    if (count > handles.length) makeRoom(Math.max(256, 2 * count))
    this.sortByAgeAndSize(list, to, count)
    const ties = this.findTies(count)
    for (let tie = 0; tie < ties; tie++) this.sortTied(starts[tie]!, ends[tie]!)
    for (let at = 0; at < count; at++) list[from + at] = handles[at]!
  }

  /** Sorts by one key for age and size or, if that would exceed 2^53, by size and then, stably, by age. */
  private sortByAgeAndSize(list: Int32Array, to: number, count: number): void {
    const { arrival_batch, remaining } = this.pool
    let oldest = Number.MAX_SAFE_INTEGER
    let newest = 0
    let largest = 0
    for (let at = 0; at < count; at++) {
      // A level lists its newest order first, so in reverse the ages are nearly sorted.
      const handle = list[to - 1 - at]!
      const batch = arrival_batch[handle]!
      const lots = remaining[handle]!
      if (batch < oldest) oldest = batch
      if (batch > newest) newest = batch
      if (lots > largest) largest = lots
      handles[at] = handle
      ages[at] = batch
      ranks[at] = lots
    }
    const sizes = largest + 1
    if ((newest - oldest + 1) * sizes <= Number.MAX_SAFE_INTEGER) {
      for (let at = 0; at < count; at++) ranks[at] = (ages[at]! - oldest) * sizes + (largest - ranks[at]!)
      sortByKey(handles, ranks, 0, count)
      return
    }
    for (let at = 0; at < count; at++) ranks[at] = largest - ranks[at]!
    sortByKey(handles, ranks, 0, count)
    for (let at = 0; at < count; at++) ranks[at] = arrival_batch[handles[at]!]! - oldest
    sortByKey(handles, ranks, 0, count)
    this.numberRanks(count)
  }

  /** Numbers orders sorted by age and size, with one number for all that are equal in both. */
  private numberRanks(count: number): void {
    const { arrival_batch, remaining } = this.pool
    let rank = 0
    ranks[0] = rank
    for (let at = 1; at < count; at++) {
      const handle = handles[at]!
      const before = handles[at - 1]!
      if (remaining[handle] !== remaining[before] || arrival_batch[handle] !== arrival_batch[before]) rank++
      ranks[at] = rank
    }
  }

  /** Finds the runs of equal ranks and reads their ids; consecutive reads wait for memory together. */
  private findTies(count: number): number {
    const { pool } = this
    let ties = 0
    for (let start = 0; start < count; ) {
      let end = start + 1
      while (end < count && ranks[end] === ranks[start]) end++
      if (end - start > 1) {
        for (let at = start; at < end; at++) pool.readId(handles[at]!, ids, 4 * at)
        starts[ties] = start
        ends[ties] = end
        ties++
      }
      start = end
    }
    return ties
  }

  private sortTied(start: number, end: number): void {
    for (let at = start; at < end; at++) hashes[at] = keyOf(this.hash(at, digest))
    sortByKey(handles, hashes, start, end - start)
    for (let at = start + 1; at < end; at++) {
      if (hashes[at] !== hashes[at - 1]) continue
      this.sortByWholeHash(start, end)
      return
    }
  }

  /** The slow path for orders of which two have equal keys. */
  private sortByWholeHash(start: number, end: number): void {
    const tied = Array.from(handles.subarray(start, end), (handle, at) => {
      // The sort by key has moved the handle, but not its id.
      this.pool.readId(handle, ids, 4 * (start + at))
      return { handle, hash: this.hash(start + at, new Uint8Array(32)) }
    })
    tied.sort((a, b) => compareBytes(a.hash, b.hash))
    for (let at = start; at < end; at++) handles[at] = tied[at - start]!.handle
  }

  private hash(at: number, into: Uint8Array): Uint8Array {
    const { seed, tieBytes } = this.terms
    if (tieBytes !== undefined) {
      sha256Into(concatBytes(TIE_DOMAIN, seed, tieBytes(handles[at]!)), into)
      return into
    }
    if (message_auction !== this.auction) {
      if (seed.length !== SEED_BYTES) throw new RangeError('the batch seed is not 32 bytes')
      message.set(seed, TIE_DOMAIN.length)
      message_auction = this.auction
    }
    for (let word = 0; word < 4; word++) message_id[word] = ids[4 * at + word]!
    sha256Into(message, into)
    return into
  }
}

/** The first 48 bits of a hash: enough to decide all but one tie in 10^14. */
function keyOf(hash: Uint8Array): number {
  let key = 0
  for (let at = 0; at < 6; at++) key = key * 256 + hash[at]!
  return key
}

function makeRoom(count: number): void {
  handles = new Int32Array(count)
  ages = new Float64Array(count)
  ranks = new Float64Array(count)
  ids = new Uint32Array(4 * count)
  hashes = new Float64Array(count)
  starts = new Int32Array(count)
  ends = new Int32Array(count)
}

/** Up to this many handles are sorted by insertion. */
const INSERTION_MAX = 32
const DIGIT_BITS = 6
const DIGIT_MASK = (1 << DIGIT_BITS) - 1

const places = new Int32Array(DIGIT_MASK + 2)
let spare_handles = new Int32Array(256)
let spare_keys = new Float64Array(256)

/**
 * Sorts `handles[from..from + count)` and `keys[from..from + count)` together by ascending key. Keys are integers from 0 to
 * 2^53-1.
 */
export function sortByKey(handles: Int32Array, keys: Float64Array, from: number, count: number): void {
  if (count > INSERTION_MAX) sortByDigits(handles, keys, from, count)
  else sortByInsertion(handles, keys, from, count)
}

function sortByInsertion(handles: Int32Array, keys: Float64Array, from: number, count: number): void {
  for (let at = from + 1; at < from + count; at++) {
    const key = keys[at]!
    const handle = handles[at]!
    let place = at
    for (; place > from && keys[place - 1]! > key; place--) {
      keys[place] = keys[place - 1]!
      handles[place] = handles[place - 1]!
    }
    keys[place] = key
    handles[place] = handle
  }
}

/** Two digits at a time: to the spare arrays and back. */
function sortByDigits(handles: Int32Array, keys: Float64Array, from: number, count: number): void {
  const to = from + count
  if (spare_keys.length < to) {
    spare_handles = new Int32Array(2 * to)
    spare_keys = new Float64Array(2 * to)
  }
  let largest = 0
  for (let at = from; at < to; at++) if (keys[at]! > largest) largest = keys[at]!
  // Scaling by a power of two is exact, and `&` takes the low bits of the integer part.
  for (let scale = 1; largest * scale >= 1; scale /= 1 << (2 * DIGIT_BITS)) {
    moveByDigit(handles, keys, from, to, scale, spare_handles, spare_keys)
    moveByDigit(spare_handles, spare_keys, from, to, scale / (1 << DIGIT_BITS), handles, keys)
  }
}

/** Counting sort by one digit of the key, into the same range of other arrays. */
function moveByDigit(
  handles: Int32Array,
  keys: Float64Array,
  from: number,
  to: number,
  scale: number,
  handles_to: Int32Array,
  keys_to: Float64Array,
): void {
  for (let digit = 0; digit <= DIGIT_MASK; digit++) places[digit] = 0
  for (let at = from; at < to; at++) places[((keys[at]! * scale) & DIGIT_MASK) + 1]!++
  places[0] = from
  for (let digit = 1; digit <= DIGIT_MASK; digit++) places[digit]! += places[digit - 1]!
  for (let at = from; at < to; at++) {
    const key = keys[at]!
    const place = places[(key * scale) & DIGIT_MASK]!++
    keys_to[place] = key
    handles_to[place] = handles[at]!
  }
}
