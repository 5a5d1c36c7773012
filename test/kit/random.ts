/** Chance from a printed seed: the same seed gives the same run. */
import { concatBytes, u64Le, utf8 } from '../../protocol/bytes'
import { reduceWide } from '../../protocol/notes/poseidon'
import { sha256 } from '../../protocol/sha256'

export class Random {
  #state: number
  #serial = 0

  constructor(readonly seed: number) {
    this.#state = seed >>> 0
  }

  /** 0 to below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  /** 0 to `count` - 1. */
  below(count: number): number {
    return this.between(0, count - 1)
  }

  /** From `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  chance(of_one: number): boolean {
    return this.next() < of_one
  }

  pick<T>(among: readonly T[]): T {
    return this.pickIfAny(among)!
  }

  pickIfAny<T>(among: readonly T[]): T | undefined {
    return among[this.below(among.length)]
  }

  /** Bytes that are drawn once. */
  bytes(count: number): Uint8Array {
    const block = (part: number) =>
      sha256(utf8('simulation'), u64Le(this.seed), u64Le(this.#serial), u64Le(part))
    this.#serial += 1
    return concatBytes(block(0), block(1)).slice(0, count)
  }

  /** A field element, not zero. */
  element(): Uint8Array {
    return reduceWide(this.bytes(48))
  }
}
