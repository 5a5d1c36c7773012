/** Owns how an oracle's price becomes a reference in ticks. */
import { TICK_MAX } from '../book/book'
import type { InstrumentTerms } from './instrument'

/** Rounded to the nearest tick, half down; undefined when no tick of the book is near it. */
export function referenceTicks({ tick_size }: InstrumentTerms, price: bigint): number | undefined {
  const below = price / tick_size
  const rest = price % tick_size
  const ticks = Number(rest * 2n > tick_size ? below + 1n : below)
  return ticks >= 1 && ticks <= TICK_MAX ? ticks : undefined
}
