/** Owns the reproducible pseudo-random numbers of the benchmarks. */

/** xorshift32: the same seed gives the same unsigned 32-bit integers on every machine. */
export function random(seed: number): () => number {
  let state = seed | 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}
