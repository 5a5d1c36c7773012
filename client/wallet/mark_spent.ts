/** Marks notes that the chain says are spent: an exit the venue served is told by no account event. */
import { fromHex, toHex } from '../../protocol/bytes'
import { nullifierOf } from '../../protocol/notes'
import type { VaultHistory } from './vault_history'
import type { Wallet, WalletNote } from './wallet'

/** @returns the notes marked. */
export function markSpent(wallet: Wallet, history: VaultHistory): WalletNote[] {
  const gone = wallet.state.notes.filter((note) => {
    if (note.state === 'spent') return false
    const nullifier = toHex(nullifierOf(fromHex(note.commitment, 32)!, fromHex(note.blinding, 32)!))
    return history.spent.has(nullifier) || history.escaped.has(nullifier)
  })
  for (const note of gone) note.state = 'spent'
  return gone
}
