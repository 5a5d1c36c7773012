/** A wallet's note opened as the vault program asks for it, at the leaf the history shows. */
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { nullifierOf } from '../../protocol/notes'
import type { NoteOpening } from '../../protocol/vault/note_proof'
import type { Wallet, WalletNote } from '../wallet/wallet'

export type OpenedNote = {
  nullifier: Uint8Array
  /** The trading key that must sign. */
  owner: Uint8Array
  mint: Uint8Array
  opening: NoteOpening
}

export function openNote(wallet: Wallet, note: WalletNote, leaf_index: number): OpenedNote {
  const [commitment, blinding] = [fromHex(note.commitment, 32)!, fromHex(note.blinding, 32)!]
  const form = note.leaf_index === undefined ? 'settlement' : 'deposit'
  return {
    nullifier: nullifierOf(commitment, blinding),
    owner: wallet.tradingKey(note.key_index),
    mint: decodeBase58(note.mint, 32)!,
    opening: { form, amount: BigInt(note.amount), blinding, leaf_index },
  }
}

export function nullifierOfNote(note: WalletNote): Uint8Array {
  return nullifierOf(fromHex(note.commitment, 32)!, fromHex(note.blinding, 32)!)
}
