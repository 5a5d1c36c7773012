/** Owns the collar: the range of ticks around the reference inside which an auction may find its price. */
import { TICK_MAX } from './book'

export type Collar = { lo: number; hi: number }

/** `reference` plus and minus `collar_bps`, rounded inward to ticks; holds the reference always. */
export function collarAround(reference: number, collar_bps: number): Collar {
  const lo = Math.ceil((reference * (10_000 - collar_bps)) / 10_000)
  const hi = Math.floor((reference * (10_000 + collar_bps)) / 10_000)
  return { lo: Math.max(1, lo), hi: Math.min(TICK_MAX, hi) }
}
