/** Builds an escape: in a frozen vault a note's owner takes its tokens with the seed and public data alone. */
import { fromHex } from '../../protocol/bytes'
import { type EscapeFields, escapeInstruction } from '../../protocol/vault/escape'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { openNote } from './open_note'
import type { VaultProofs } from './vault_proofs'

export type EscapeTerms = {
  program: Uint8Array
  /** Pays the rent of the escape record. */
  payer: Uint8Array
  destination: Uint8Array
  token_program: Uint8Array
  /** Who paid the bond of the note's open exit request, if it has one. */
  bond_payer?: Uint8Array
}

/** What an escape shows, before it is encoded. @throws ProofUnavailable */
export function escapeFields(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: EscapeTerms,
): EscapeFields {
  const { leaf_index, siblings: path } = proofs.finalInclusion(fromHex(note.commitment, 32)!)
  const { owner, mint, opening, nullifier } = openNote(wallet, note, leaf_index)
  const { siblings: low_path, ...low } = proofs.absence(nullifier)
  return { ...terms, ...low, owner, mint, opening, nullifier, path, low_path }
}

/** @throws ProofUnavailable */
export function prepareEscape(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: EscapeTerms,
): VaultInstruction {
  return escapeInstruction(escapeFields(wallet, note, proofs, terms))
}
