/** The opening a request carries for a note the venue may not know: harmless when it does. */
import type { NoteOpening } from '../../protocol/wire'
import type { WalletNote } from './wallet'

export function openingOf(note: WalletNote): NoteOpening {
  const { mint, amount, blinding, leaf_index } = note
  return leaf_index === undefined ? { mint, amount, blinding } : { mint, amount, blinding, leaf_index }
}
