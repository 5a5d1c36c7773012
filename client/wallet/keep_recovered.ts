/** Puts a recovered note into the wallet, spent or free as the public history says. */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../protocol/notes'
import type { KeyScan } from './recover'
import type { WalletNote } from './wallet'

export type RecoveredNote = {
  commitment: Uint8Array
  mint: Uint8Array
  amount: bigint
  blinding: Uint8Array
  leaf_index?: number
  origin: WalletNote['origin']
}

export function keepRecovered(scan: KeyScan, note: RecoveredNote): void {
  const { wallet, history, key_index } = scan
  const { blinding, leaf_index, origin } = note
  const commitment = toHex(note.commitment)
  if (wallet.note(commitment) !== undefined) return
  const nullifier = toHex(nullifierOf(note.commitment, blinding))
  const batch = history.spent.get(nullifier)
  const [mint, amount] = [encodeBase58(note.mint), String(note.amount)]
  if (batch !== undefined && !history.exited.has(nullifier)) {
    scan.spent.push({ mint, amount, batch })
    scan.unexplained += 1
  }
  wallet.addNote({
    commitment,
    key_index,
    mint,
    amount,
    blinding: toHex(blinding),
    ...(leaf_index === undefined ? {} : { leaf_index }),
    state: batch !== undefined || history.escaped.has(nullifier) ? 'spent' : 'free',
    origin,
  })
}

/** Keeps every note the program made for this blinding. @returns whether the history knows its inner hash at all */
export function keepProgramNotes(scan: KeyScan, blinding: Uint8Array): { used: boolean; inner: string } {
  const { history, owner } = scan
  const inner = noteInner(owner, blinding)
  const name = toHex(inner)
  const notes = history.program_notes.get(name) ?? []
  for (const note of notes) {
    const { mint, amount, leaf_index } = note
    const commitment = depositCommitment({ mint, amount, inner, leaf_index })
    if (toHex(commitment) === toHex(note.commitment)) keepRecovered(scan, { ...note, blinding })
  }
  return { used: notes.length > 0, inner: name }
}
