/**
 * The next blinding of a key's deposits: of a deposit, or of the refund of an exit.
 *
 * Two copies of a seed that are used at once may take the same one. Nothing is lost by it, since the leaf index makes the
 * notes and their nullifiers differ; but whoever reads the chain sees that both have one owner.
 */
import { deriveDepositBlinding } from '../../protocol/derive'
import type { Wallet } from './wallet'

export type TakenBlinding = {
  blinding: Uint8Array
  /** For a transaction that never will land; without effect once a later blinding was taken. */
  giveBack(): void
}

export function takeDepositBlinding(wallet: Wallet, key_index: number): TakenBlinding {
  const counters = wallet.counters(key_index)
  const taken = counters.deposits++
  return {
    blinding: deriveDepositBlinding(wallet.seed, key_index, taken),
    giveBack() {
      if (counters.deposits === taken + 1) counters.deposits = taken
    },
  }
}
