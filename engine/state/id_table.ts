/** Finds a number by the 16-byte id it stands for; the ids themselves lie with whoever made the table. */
import { keyedHash } from './keyed_hash'

/** Parts grow one at a time, so that no growth takes a pause: at four million ids one holds 16 thousand. */
const PARTS = 256
const START = 16
/** Numbers are kept in 32 bits; those alive at a time lie closer together than that. */
const MODULUS = 0xffff_ffff

type Part = { table: Uint32Array; count: number }

export class IdTable {
  private readonly parts: Part[] = Array.from({ length: PARTS }, () => ({
    table: new Uint32Array(START),
    count: 0,
  }))

  /**
   * @param idAt where the id of a number lies
   * @param first the least number alive
   */
  constructor(
    private readonly idAt: (number: number) => { bytes: Uint8Array; at: number },
    private readonly first: () => number,
  ) {}

  /** The number of the id at `at`. */
  find(bytes: Uint8Array, at = 0): number | undefined {
    const hash = keyedHash(bytes, at, 4)
    const { table } = this.parts[hash % PARTS]!
    const entry = table[this.bucketOf(table, hash, bytes, at)]!
    return entry === 0 ? undefined : this.numberOf(entry)
  }

  /** The id of `number` is not in the table yet. */
  add(number: number): void {
    const { bytes, at } = this.idAt(number)
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
    const { bytes, at } = this.idAt(number)
    const hash = keyedHash(bytes, at, 4)
    const part = this.parts[hash % PARTS]!
    const bucket = this.bucketOf(part.table, hash, bytes, at)
    if (part.table[bucket] === 0) throw new Error('an id is not in the table')
    part.count--
    this.closeGap(part.table, bucket)
  }

  /** Moves later entries of the run forward, so that lookups need no marks of what was removed. */
  private closeGap(table: Uint32Array, from: number): void {
    const mask = table.length - 1
    let gap = from
    for (let bucket = (gap + 1) & mask; table[bucket] !== 0; bucket = (bucket + 1) & mask) {
      const { bytes, at } = this.idAt(this.numberOf(table[bucket]!))
      const home = (keyedHash(bytes, at, 4) >>> 8) & mask
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
      const { bytes, at } = this.idAt(this.numberOf(entry))
      if (equalIds(bytes, at, id, id_at)) return bucket
    }
  }

  private numberOf(entry: number): number {
    const first = this.first()
    return first + ((entry - 1 - (first % MODULUS) + MODULUS) % MODULUS)
  }

  private grow(part: Part): void {
    const old = part.table
    part.table = new Uint32Array(old.length * 2)
    for (const entry of old) {
      if (entry === 0) continue
      const { bytes, at } = this.idAt(this.numberOf(entry))
      part.table[this.bucketOf(part.table, keyedHash(bytes, at, 4), bytes, at)] = entry
    }
  }
}

function equalIds(a: Uint8Array, a_at: number, b: Uint8Array, b_at: number): boolean {
  for (let at = 0; at < 16; at++) if (a[a_at + at] !== b[b_at + at]) return false
  return true
}
