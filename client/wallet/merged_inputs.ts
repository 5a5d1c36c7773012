/** How many notes a recovered reshape spent: the chain shows its outputs and, unconnected, the nullifiers of its batch. */
import type { WalletNote } from './wallet'

/** A note of the key that a batch spent. */
export type SpentNote = Pick<WalletNote, 'mint' | 'amount'> & { batch: number }

const INPUTS_MAX = 4

/**
 * The fewest notes spent in its batch that sum to the outputs. The true inputs are among them, so the answer is never
 * above the true count, and a search that counts with it never ends too early.
 */
export function fewestInputs(
  spent: readonly SpentNote[],
  made: { mint: string; batch: number; sum: bigint },
): number {
  const alike = spent.filter(({ mint, batch }) => mint === made.mint && batch === made.batch)
  const amounts = alike.map(({ amount }) => BigInt(amount))
  for (let count = 1; count <= INPUTS_MAX; count++) if (sumsTo(amounts, made.sum, count, 0)) return count
  return 1
}

/** Whether `count` of the amounts from place `from` on sum to `sum`. */
function sumsTo(amounts: readonly bigint[], sum: bigint, count: number, from: number): boolean {
  if (count === 0) return sum === 0n
  for (let at = from; at <= amounts.length - count; at++)
    if (amounts[at]! <= sum && sumsTo(amounts, sum - amounts[at]!, count - 1, at + 1)) return true
  return false
}
