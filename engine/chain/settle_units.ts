/** Compute units a settlement batch asks for when it cannot be simulated because its predecessors have not landed. */

type Counted = Record<'nullifiers' | 'outputs' | 'payouts', readonly unknown[]>

/** The path to the root, the ring and the event, whatever the batch holds. */
const BASE_UNITS = 50_000
const UNITS_PER_OUTPUT = 1_200
const UNITS_PER_NULLIFIER = 100

/**
 * Between a tenth and a third above what the program uses (measured: `program/README.md`), save where an append crosses a
 * multiple of a high power of two: each level costs a hash more. Undefined for a batch with payouts: what one costs
 * depends on its destination, which only a simulation knows.
 */
export function settleUnits({ nullifiers, outputs, payouts }: Counted): number | undefined {
  if (payouts.length > 0) return undefined
  return BASE_UNITS + UNITS_PER_OUTPUT * outputs.length + UNITS_PER_NULLIFIER * nullifiers.length
}
