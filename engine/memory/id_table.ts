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
/** The table is split into parts that grow one at a time, which keeps pauses short: 16 thousand of 4 million ids. */
const PARTS = 256
const BUCKETS_MIN = 16
/** Numbers are stored in 32 bits, reduced by this; the numbers in a table span less. */
const MODULUS = 0xffff_ffff

/** A hash table with open addressing; a bucket holds 1 + the reduced number, or 0. */
type Part = { table: Uint32Array; count: number }
/** Shared by all empty parts: most tables of a small venue are empty. */
const EMPTY = new Uint32Array(1)

export class IdTable {
  private readonly k0: number
  private readonly k1: number
  /** Within the part that the last `seek` found. */
  private bucket = 0
  private readonly parts: Part[] = Array.from({ length: PARTS }, () => ({ table: EMPTY, count: 0 }))

  /**
   * @param ids the ids of the numbers in the table, which stores no ids itself
   * @param width of an id in bytes, at least 16
   * @param first the least number in the table; only needed if numbers reach 2^32 - 1
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
    const entry = this.seek(bytes, at).table[this.bucket]!
    return entry === 0 ? undefined : this.numberOf(entry)
  }

  /** Allocates for `count` ids; the table must be empty. */
  reserve(count: number): void {
    let buckets = BUCKETS_MIN
    // Ids spread unevenly: the few parts above the average grow later.
    while (buckets < (2 * count) / PARTS) buckets *= 2
    if (buckets > BUCKETS_MIN) for (const part of this.parts) part.table = new Uint32Array(buckets)
  }

  /** Removes all, and frees the memory. */
  clear(): void {
    for (const part of this.parts) Object.assign(part, { table: EMPTY, count: 0 })
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
    const bytes = this.ids.bytesOf(number)
    const at = this.ids.placeOf(number)
    const part = this.seek(bytes, at)
    if (part.table[this.bucket] !== 0) {
      if (!replaces) throw new Error('an id is in the table already')
      part.table[this.bucket] = (number % MODULUS) + 1
      return
    }
    if ((part.count + 1) * 2 > part.table.length) {
      this.grow(part)
      this.seek(bytes, at)
    }
    part.table[this.bucket] = (number % MODULUS) + 1
    part.count++
  }

  /** The id of `number` must still be readable. @throws Error when `number` is not in the table */
  remove(number: number): void {
    if (!this.drop(number)) throw new Error('an id is not in the table')
  }

  /** As `remove`; false when `number` is not in the table, as after `put` of another number of its id. */
  drop(number: number): boolean {
    const hash = this.hashOf(number)
    const part = this.parts[hash & (PARTS - 1)]!
    const { table } = part
    const mask = table.length - 1
    const wanted = (number % MODULUS) + 1
    let bucket = (hash >>> 8) & mask
    // Compares numbers, which needs no read of the ids on the way.
    for (; table[bucket] !== wanted; bucket = (bucket + 1) & mask) {
      if (table[bucket] === 0) return false
    }
    part.count--
    this.closeGap(table, bucket)
    return true
  }

  /** Moves later entries of the run forward, so that lookups need no tombstones. */
  private closeGap(table: Uint32Array, from: number): void {
    const mask = table.length - 1
    let gap = from
    for (let bucket = (gap + 1) & mask; table[bucket] !== 0; bucket = (bucket + 1) & mask) {
      const home = (this.hashOf(this.numberOf(table[bucket]!)) >>> 8) & mask
      // An entry may move to the gap unless its home lies behind the gap.
      if (((bucket - home) & mask) < ((bucket - gap) & mask)) continue
      table[gap] = table[bucket]!
      gap = bucket
    }
    table[gap] = 0
  }

  /**
   * The part of the id at `id_at` of `id`; `bucket` is then the one that holds it, or the empty one where it belongs. Hash
   * and comparison are one long function: a short one is compiled into every caller, and a boot takes a tenth longer.
   */
  private seek(id: Uint8Array, id_at: number): Part {
    const { ids, width } = this
    const hash = this.hash(id, id_at)
    const part = this.parts[hash & (PARTS - 1)]!
    const { table } = part
    const mask = table.length - 1
    let bucket = (hash >>> 8) & mask
    for (; table[bucket] !== 0; bucket = (bucket + 1) & mask) {
      const number = this.numberOf(table[bucket]!)
      const other = ids.bytesOf(number)
      const other_at = ids.placeOf(number)
      let same = 0
      while (same < width && other[other_at + same] === id[id_at + same]) same++
      if (same === width) break
    }
    this.bucket = bucket
    return part
  }

  private hashOf(number: number): number {
    return this.hash(this.ids.bytesOf(number), this.ids.placeOf(number))
  }

  /**
   * HalfSipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF") of the first 16 bytes of an id. Without the
   * key no client finds ids that collide; a multiplicative hash has differences that collide under every key. The low 8
   * bits choose the part, the others the bucket.
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
    return (v1 ^ v3) >>> 0
  }

  private numberOf(entry: number): number {
    const first = this.first()
    const ahead = entry - 1 - (first % MODULUS)
    return first + (ahead < 0 ? ahead + MODULUS : ahead)
  }

  private grow(part: Part): void {
    const old = part.table
    const table = new Uint32Array(Math.max(BUCKETS_MIN, old.length * 2))
    const mask = table.length - 1
    for (let from = 0; from < old.length; from++) {
      const entry = old[from]!
      if (entry === 0) continue
      // All ids differ, so none is compared.
      let bucket = (this.hashOf(this.numberOf(entry)) >>> 8) & mask
      while (table[bucket] !== 0) bucket = (bucket + 1) & mask
      table[bucket] = entry
    }
    part.table = table
  }
}
