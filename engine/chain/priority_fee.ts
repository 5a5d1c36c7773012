/** The priority fee of a transaction: a percentile of what others paid lately on our accounts, within floor and cap. */
import type { ChainClient } from './chain_client'

const MICRO_LAMPORTS = 1_000_000n

/** Micro-lamports per unit that others lately paid on our accounts; 0 when the cluster does not say. */
export async function priorityPrice({ rpc, address, fees }: ChainClient): Promise<bigint> {
  try {
    const paid = await rpc.read((endpoint, abortSignal) =>
      endpoint.getRecentPrioritizationFees([address.config, address.tree]).send({ abortSignal }),
    )
    const prices = paid
      .map((slot) => BigInt(slot.prioritizationFee))
      .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
    return prices[Math.min(prices.length - 1, Math.floor((prices.length * fees.percentile) / 100))] ?? 0n
  } catch {
    // Sending at the floor is better than not sending.
    return 0n
  }
}

/** Lamports for `compute_units` at this price, within floor and cap; half as much again per earlier attempt. */
export function priorityFee(
  { floor_lamports, cap_lamports }: ChainClient['fees'],
  price: bigint,
  compute_units: number,
  attempt: number,
): bigint {
  const lamports = (price * BigInt(compute_units) + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS
  const fee = lamports > floor_lamports ? lamports : floor_lamports
  const raised = (fee * BigInt(Math.round(100 * 1.5 ** Math.min(attempt, 20)))) / 100n
  return raised > cap_lamports ? cap_lamports : raised
}
