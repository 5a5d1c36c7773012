/** The fuzzer's reproducible chance: the same seed makes the same run. */

export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0 || 1
  }

  /** An unsigned 32-bit number (xorshift32). */
  word(): number {
    this.#state ^= this.#state << 13
    this.#state ^= this.#state >>> 17
    this.#state ^= this.#state << 5
    return this.#state >>> 0
  }

  /** An integer from 0 to `bound` - 1. */
  below(bound: number): number {
    return this.word() % bound
  }

  /** True once in `times`. */
  oneIn(times: number): boolean {
    return this.below(times) === 0
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError('nothing to pick from')
    return items[this.below(items.length)]!
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.word() & 0xff)
  }

  /** A field element that is not zero. */
  element(): Uint8Array {
    const bytes = this.bytes(32)
    bytes[0]! &= 0x1f
    return bytes
  }
}
