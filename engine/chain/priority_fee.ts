/** The priority fee of a transaction: a percentile of what others paid lately on our accounts, within floor and cap. */
import type { ChainClient } from './chain_client'

const MICRO_LAMPORTS = 1_000_000n

/**
 * Lamports for `compute_units`, half as much again per earlier attempt. The floor when the cluster does not say: a
 * missing answer must not stop settlement.
 */
export async function priorityFee(
  client: ChainClient,
  compute_units: number,
  attempt: number,
): Promise<bigint> {
  const { floor_lamports, cap_lamports, percentile } = client.fees
  let fee = floor_lamports
  try {
    const paid = await client.rpc.read((endpoint, abortSignal) =>
      endpoint
        .getRecentPrioritizationFees([client.address.config, client.address.tree])
        .send({ abortSignal }),
    )
    const prices = paid.map((slot) => slot.prioritizationFee).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
    const price = prices[Math.min(prices.length - 1, Math.floor((prices.length * percentile) / 100))] ?? 0n
    const lamports = (BigInt(price) * BigInt(compute_units) + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS
    if (lamports > fee) fee = lamports
  } catch {
    // Sending at the floor is better than not sending.
  }
  const raised = (fee * BigInt(Math.round(100 * 1.5 ** Math.min(attempt, 20)))) / 100n
  return raised > cap_lamports ? cap_lamports : raised
}
