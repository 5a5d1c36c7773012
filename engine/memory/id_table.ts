/** Finds a number by its id under a seeded hash, so that clients cannot choose colliding ids. */

// Hashes ids for the tables of this process. Clients choose ids, so they must not be able to make many of them meet.

/** Drawn anew by every process; the order of a table's buckets shows nowhere. */
const SECRET = crypto.getRandomValues(new Uint32Array(2))
const START = SECRET[0]! | 0
const FACTOR = SECRET[1]! | 1 | 0

/** 32 bits of `words` little-endian words from `at`; high and low bits are equally good. */
function keyedHash(bytes: Uint8Array, at: number, words: number): number {
  let hash = START
  for (let word = 0; word < words; word++) {
    const from = at + word * 4
    hash ^= bytes[from]! | (bytes[from + 1]! << 8) | (bytes[from + 2]! << 16) | (bytes[from + 3]! << 24)
    hash = Math.imul(hash ^ (hash >>> 15), FACTOR)
    hash ^= hash >>> 13
  }
  hash = Math.imul(hash, 0x9e3779b1)
  return (hash ^ (hash >>> 16)) >>> 0
}

// Finds a number by the id it stands for; the ids themselves lie with whoever made the table.

/** Parts grow one at a time, so that no growth takes a pause: at four million ids one holds 16 thousand. */
const PARTS = 256
const FIRST_BUCKETS = 16
/** Numbers are kept in 32 bits; those alive at a time lie closer together than that. */
const MODULUS = 0xffff_ffff

/** Most tables of a small venue are empty, so parts begin without memory of their own. */
type Part = { table: Uint32Array; count: number }
const NOTHING = new Uint32Array(1)

/** Where the id of a number lies: in these bytes, from this place on. */
export type Ids = { bytesOf(number: number): Uint8Array; placeOf(number: number): number }

export class IdTable {
  private readonly parts: Part[] = Array.from({ length: PARTS }, () => ({
    table: NOTHING,
    count: 0,
  }))

  /**
   * @param width of an id in bytes, 16 at least
   * @param first the least number alive; numbers below 2^32 need none
   */
  constructor(
    private readonly ids: Ids,
    private readonly width = 16,
    private readonly first: () => number = () => 0,
  ) {}

  /** The number of the id at `at`. */
  find(bytes: Uint8Array, at = 0): number | undefined {
    const hash = keyedHash(bytes, at, 4)
    const { table } = this.parts[hash % PARTS]!
    const entry = table[this.bucketOf(table, hash, bytes, at)]!
    return entry === 0 ? undefined : this.numberOf(entry)
  }

  /** Makes room for so many ids at once; only while the table is empty. */
  reserve(count: number): void {
    let buckets = FIRST_BUCKETS
    // The few parts that hold more than their share grow.
    while (buckets < (2 * count) / PARTS) buckets *= 2
    if (buckets > FIRST_BUCKETS) for (const part of this.parts) part.table = new Uint32Array(buckets)
  }

  /** The id of `number` is not in the table yet. */
  add(number: number): void {
    const bytes = this.ids.bytesOf(number)
    const at = this.ids.placeOf(number)
    const hash = keyedHash(bytes, at, 4)
    const part = this.parts[hash % PARTS]!
    if ((part.count + 1) * 2 > part.table.length) this.grow(part)
    const bucket = this.bucketOf(part.table, hash, bytes, at)
    if (part.table[bucket] !== 0) throw new Error('an id is in the table already')
    part.table[bucket] = (number % MODULUS) + 1
    part.count++
  }

  /** `number` is alive and in the table. */
  remove(number: number): void {
    const hash = this.hashOf(number)
    const part = this.parts[hash % PARTS]!
    const { table } = part
    const mask = table.length - 1
    const wanted = (number % MODULUS) + 1
    let bucket = (hash >>> 8) & mask
    // By number: the ids of others on the way need not be looked at.
    for (; table[bucket] !== wanted; bucket = (bucket + 1) & mask) {
      if (table[bucket] === 0) throw new Error('an id is not in the table')
    }
    part.count--
    this.closeGap(table, bucket)
  }

  /** Moves later entries of the run forward, so that lookups need no marks of what was removed. */
  private closeGap(table: Uint32Array, from: number): void {
    const mask = table.length - 1
    let gap = from
    for (let bucket = (gap + 1) & mask; table[bucket] !== 0; bucket = (bucket + 1) & mask) {
      const home = (this.hashOf(this.numberOf(table[bucket]!)) >>> 8) & mask
      // An entry may move to the gap unless its home lies behind it.
      if (((bucket - home) & mask) < ((bucket - gap) & mask)) continue
      table[gap] = table[bucket]!
      gap = bucket
    }
    table[gap] = 0
  }

  private bucketOf(table: Uint32Array, hash: number, id: Uint8Array, id_at: number): number {
    const mask = table.length - 1
    for (let bucket = (hash >>> 8) & mask; ; bucket = (bucket + 1) & mask) {
      const entry = table[bucket]!
      if (entry === 0) return bucket
      const number = this.numberOf(entry)
      if (this.equals(this.ids.bytesOf(number), this.ids.placeOf(number), id, id_at)) return bucket
    }
  }

  private equals(a: Uint8Array, a_at: number, b: Uint8Array, b_at: number): boolean {
    for (let at = 0; at < this.width; at++) if (a[a_at + at] !== b[b_at + at]) return false
    return true
  }

  private hashOf(number: number): number {
    return keyedHash(this.ids.bytesOf(number), this.ids.placeOf(number), 4)
  }

  private numberOf(entry: number): number {
    const first = this.first()
    const ahead = entry - 1 - (first % MODULUS)
    return first + (ahead < 0 ? ahead + MODULUS : ahead)
  }

  private grow(part: Part): void {
    const old = part.table
    const table = new Uint32Array(Math.max(FIRST_BUCKETS, old.length * 2))
    const mask = table.length - 1
    for (let from = 0; from < old.length; from++) {
      const entry = old[from]!
      if (entry === 0) continue
      // All ids differ, so none need be compared.
      let bucket = (this.hashOf(this.numberOf(entry)) >>> 8) & mask
      while (table[bucket] !== 0) bucket = (bucket + 1) & mask
      table[bucket] = entry
    }
    part.table = table
  }
}
