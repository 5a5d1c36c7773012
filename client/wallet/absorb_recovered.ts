/** Brings a wallet that lives on up to date with what the chain alone tells of its seed. */
import { markSpent } from './mark_spent'
import type { VaultHistory } from './vault_history'
import type { Wallet, WalletNote } from './wallet'

/**
 * Adds notes the wallet lacks, marks those the chain says are spent, moves counters forward; what backs a command stays so.
 * @param recovered the same seed's wallet, as `recoverWallet` finds it in `history`
 */
export function absorbRecovered(
  wallet: Wallet,
  recovered: Wallet,
  history: VaultHistory,
): { added: WalletNote[]; spent: WalletNote[] } {
  const added = recovered.state.notes.filter(({ commitment }) => wallet.note(commitment) === undefined)
  for (const note of added) wallet.addNote({ ...note })
  recovered.state.keys.forEach(({ commands, deposits }, key_index) => {
    const counters = wallet.counters(key_index)
    counters.commands = Math.max(counters.commands, commands)
    counters.deposits = Math.max(counters.deposits, deposits)
  })
  return { added, spent: markSpent(wallet, history) }
}
