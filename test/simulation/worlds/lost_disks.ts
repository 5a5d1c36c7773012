/** The debts of a vault whose venue lost every disk: its next start reads the chain (settlement.md "Rollback"). */
import type { Engine } from '../../../engine/boot/assemble'
import { toHex } from '../../../protocol/bytes'
import { nullifierOf } from '../../../protocol/notes/notes'
import type { Deposit } from '../campaign_check'

/** Debts of the vault that only their owners can name from then on: notes, and the accrued fees, which no note spends. */
export function lostNotes(
  { mints, notes, settlement }: Engine['state'],
  deposited: readonly Deposit[],
): Deposit[] {
  const mintOf = (at: number) => toHex(mints[at]!.bytes)
  const lost = deposited.filter(({ commitment }) => !notes.has(commitment))
  for (const note of notes.values()) {
    if (note.status === 'spent') continue
    const [commitment, blinding] = [note.commitment!.slice(), note.blinding!.slice()]
    const nullifier = nullifierOf(commitment, blinding)
    lost.push({ mint: mintOf(note.mint), amount: note.amount, leaf_index: 0, commitment, nullifier })
  }
  const none = new Uint8Array(32)
  for (const [at, amount] of settlement.fees.entries())
    lost.push({ mint: mintOf(at), amount, leaf_index: 0, commitment: none, nullifier: none })
  return lost
}
