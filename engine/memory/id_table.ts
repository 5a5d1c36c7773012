/** Finds a number by its id under a seeded hash, so that clients cannot choose colliding ids. */

/**
 * The 64-bit key of an id table's hash, as two 32-bit words. Clients choose ids, so a predictable seed would be a
 * denial-of-service hole: with ids chosen to collide, each lookup scans all of them.
 * Production code passes `randomHashSeed()` (engine/sequencer/seeds.ts); tests and benchmarks pass a fixed seed.
 * Results do not depend on the seed: no caller sees the order of the buckets.
 */
export type HashSeed = readonly [k0: number, k1: number]

/** The bytes that contain the id of a number, and its offset there. */
export type Ids = { bytesOf(number: number): Uint8Array; placeOf(number: number): number }

/** Ids are at least this long, and their first bytes are hashed. */
const HASHED_BYTES = 16
const WORDS = HASHED_BYTES / 4
/** One per word, one for the length, three to finish. */
const ROUNDS = WORDS + 1 + 3
const BUCKETS_MIN = 16
/** Buckets that move to a larger table with each id that is added; with fewer than two it could fill before all have moved. */
const MOVED_AT_ONCE = 32
/** Numbers are stored as positive 32-bit integers, reduced by this; the numbers in a table span less. */
const MODULUS = 0x7fff_fffe
/** A bucket of the smaller table has this after its entry has moved or was removed: lookups pass over it. */
const MOVED = -1
/** Shared by all empty tables. */
const EMPTY = new Int32Array(1)

export class IdTable {
  private readonly k0: number
  private readonly k1: number
  private count = 0
  /** Open addressing; a bucket holds 1 + the reduced number, or 0. One array: each step to a bucket is a wait for memory. */
  private table = EMPTY
  /** The table before, while its entries move bucket by bucket, so that growth takes no pause; then empty. */
  private smaller = EMPTY
  /** Buckets of it that have moved. */
  private moved = 0
  /** Within the table that the last `seek` returned. */
  private bucket = 0

  /**
   * @param ids the ids of the numbers in the table, which stores no ids itself
   * @param width of an id in bytes, at least 16
   * @param first the least number in the table; only needed if numbers reach 2^31 - 2
   */
  constructor(
    private readonly ids: Ids,
    [k0, k1]: HashSeed,
    private readonly width = HASHED_BYTES,
    private readonly first: () => number = () => 0,
  ) {
    this.k0 = k0 | 0
    this.k1 = k1 | 0
  }

  /** The number of the id at `at`. */
  find(bytes: Uint8Array, at = 0): number | undefined {
    const entry = this.seek(bytes, at)[this.bucket]!
    return entry === 0 ? undefined : this.numberOf(entry)
  }

  /** Allocates for `count` ids; the table must be empty. */
  reserve(count: number): void {
    let buckets = BUCKETS_MIN
    while (buckets < 2 * count) buckets *= 2
    if (buckets > BUCKETS_MIN) this.table = new Int32Array(buckets)
  }

  /** Removes all, and frees the memory. */
  clear(): void {
    Object.assign(this, { table: EMPTY, smaller: EMPTY, count: 0 })
  }

  /** @throws Error when the id of `number` is in the table already */
  add(number: number): void {
    this.enter(number, false)
  }

  /** Adds `number`, in the place of an earlier one of the same id. */
  put(number: number): void {
    this.enter(number, true)
  }

  private enter(number: number, replaces: boolean): void {
    if (this.smaller !== EMPTY) this.move()
    const bytes = this.ids.bytesOf(number)
    const at = this.ids.placeOf(number)
    let table = this.seek(bytes, at)
    if (table[this.bucket] === 0) {
      if ((this.count + 1) * 2 > table.length) {
        this.grow()
        table = this.seek(bytes, at)
      }
      this.count++
    } else if (!replaces) throw new Error('an id is in the table already')
    table[this.bucket] = (number % MODULUS) + 1
  }

  /** The id of `number` must still be readable. @throws Error when `number` is not in the table */
  remove(number: number): void {
    if (!this.drop(number)) throw new Error('an id is not in the table')
  }

  /** As `remove`; false when `number` is not in the table, as after `put` of another number of its id. */
  drop(number: number): boolean {
    const hash = this.hashOf(number)
    const wanted = (number % MODULUS) + 1
    const bucket = bucketOf(this.table, hash, wanted)
    if (bucket !== undefined) this.closeGap(this.table, bucket)
    else {
      const left = bucketOf(this.smaller, hash, wanted)
      if (left === undefined) return false
      this.smaller[left] = MOVED
    }
    this.count--
    return true
  }

  /** Moves later entries of the run forward, so that lookups need no tombstones. */
  private closeGap(table: Int32Array, from: number): void {
    const mask = table.length - 1
    let gap = from
    for (let bucket = (gap + 1) & mask; table[bucket] !== 0; bucket = (bucket + 1) & mask) {
      const home = this.hashOf(this.numberOf(table[bucket]!)) & mask
      // An entry may move to the gap unless its home lies behind the gap.
      if (((bucket - home) & mask) < ((bucket - gap) & mask)) continue
      table[gap] = table[bucket]!
      gap = bucket
    }
    table[gap] = 0
  }

  /**
   * The table with the id at `id_at` of `id`; `bucket` is then the one that holds it, or the empty one where it belongs.
   * One long function: a short one is compiled into every caller, and a boot takes a tenth longer.
   */
  private seek(id: Uint8Array, id_at: number): Int32Array {
    const { ids, width, smaller } = this
    const hash = this.hash(id, id_at)
    let { table } = this
    for (;;) {
      const mask = table.length - 1
      let bucket = hash & mask
      for (; table[bucket] !== 0; bucket = (bucket + 1) & mask) {
        if (table[bucket] === MOVED) continue
        const number = this.numberOf(table[bucket]!)
        const other = ids.bytesOf(number)
        const other_at = ids.placeOf(number)
        let same = 0
        while (same < width && other[other_at + same] === id[id_at + same]) same++
        if (same < width) continue
        this.bucket = bucket
        return table
      }
      if (table !== this.table) return this.table
      this.bucket = bucket
      if (smaller === EMPTY) return table
      table = smaller
    }
  }

  private hashOf(number: number): number {
    return this.hash(this.ids.bytesOf(number), this.ids.placeOf(number))
  }

  /**
   * HalfSipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF") of the first 16 bytes of an id. Without the
   * key no client finds ids that collide; a multiplicative hash has differences that collide under every key.
   */
  private hash(bytes: Uint8Array, at: number): number {
    let v0 = this.k0
    let v1 = this.k1
    let v2 = v0 ^ 0x6c796765
    let v3 = v1 ^ 0x74656462
    for (let round = 0; round < ROUNDS; round++) {
      let word = 0
      if (round < WORDS) {
        const from = at + 4 * round
        word = bytes[from]! | (bytes[from + 1]! << 8) | (bytes[from + 2]! << 16) | (bytes[from + 3]! << 24)
      } else if (round === WORDS) word = HASHED_BYTES << 24
      else if (round === WORDS + 1) v2 ^= 0xff
      v3 ^= word
      v0 = (v0 + v1) | 0
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
      v0 = (v0 << 16) | (v0 >>> 16)
      v2 = (v2 + v3) | 0
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
      v0 = (v0 + v3) | 0
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
      v2 = (v2 + v1) | 0
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
      v2 = (v2 << 16) | (v2 >>> 16)
      v0 ^= word
    }
    return v1 ^ v3
  }

  private numberOf(entry: number): number {
    const first = this.first()
    const ahead = entry - 1 - (first % MODULUS)
    return first + (ahead < 0 ? ahead + MODULUS : ahead)
  }

  private grow(): void {
    this.smaller = this.table
    this.moved = 0
    this.table = new Int32Array(Math.max(BUCKETS_MIN, this.smaller.length * 2))
  }

  /** All ids differ, so none is compared. */
  private move(): void {
    const { table, smaller } = this
    const mask = table.length - 1
    const end = Math.min(this.moved + MOVED_AT_ONCE, smaller.length)
    for (; this.moved < end; this.moved++) {
      const entry = smaller[this.moved]!
      if (entry === 0 || entry === MOVED) continue
      let bucket = this.hashOf(this.numberOf(entry)) & mask
      while (table[bucket] !== 0) bucket = (bucket + 1) & mask
      table[bucket] = entry
      smaller[this.moved] = MOVED
    }
    if (this.moved === smaller.length) this.smaller = EMPTY
  }
}

/** The bucket of a number. Compares numbers, which needs no read of the ids on the way. */
function bucketOf(table: Int32Array, hash: number, wanted: number): number | undefined {
  const mask = table.length - 1
  let bucket = hash & mask
  for (; table[bucket] !== wanted; bucket = (bucket + 1) & mask) if (table[bucket] === 0) return undefined
  return bucket
}
