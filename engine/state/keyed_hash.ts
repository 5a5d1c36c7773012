/** Hashes ids for the tables of this process. Clients choose ids, so they must not be able to make many of them meet. */

/** Drawn anew by every process; the order of a table's buckets shows nowhere. */
const SECRET = crypto.getRandomValues(new Uint32Array(2))
const START = SECRET[0]! | 0
const FACTOR = SECRET[1]! | 1 | 0

/** 32 bits of `words` little-endian words from `at`; high and low bits are equally good. */
export function keyedHash(bytes: Uint8Array, at: number, words: number): number {
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
