/** Fees the traders paid so far, by mint, from the facts their wallets keep. */
import type { Trader } from './trader'

export function feesOf(traders: readonly Trader[]): Map<string, bigint> {
  const fees = new Map<string, bigint>()
  for (const { wallet } of traders) {
    for (const { mint, amount } of wallet.state.fees) {
      fees.set(mint, (fees.get(mint) ?? 0n) + BigInt(amount))
    }
  }
  return fees
}
