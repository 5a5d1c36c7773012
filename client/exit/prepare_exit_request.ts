/** Builds an exit request: the owner demands that the venue pays a note out before the deadline. */
import { fromHex } from '../../protocol/bytes'
import { noteInner } from '../../protocol/notes'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { type RequestExitFields, requestExitInstruction } from '../../protocol/vault/request_exit'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { openNote } from './open_note'
import type { VaultProofs } from './vault_proofs'

export type ExitRequestTerms = {
  program: Uint8Array
  /** Pays rent and bond, and gets both back. */
  payer: Uint8Array
  /** Token account that receives the whole note. */
  destination: Uint8Array
  /** The key's next deposit blinding: should the destination be unusable, the note that comes back is found as deposits are. */
  refund_blinding: Uint8Array
}

/**
 * What a request shows, before it is encoded.
 * @throws ProofUnavailable, also for a note that is spent already: its bond would be lost
 */
export function exitRequestFields(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: ExitRequestTerms,
): RequestExitFields {
  const { leaf_index, siblings: path, ...cited } = proofs.inclusion(fromHex(note.commitment, 32)!)
  const { owner, mint, opening, nullifier } = openNote(wallet, note, leaf_index)
  proofs.absence(nullifier)
  const { refund_blinding, ...to } = terms
  const refund_inner = noteInner(owner, refund_blinding)
  return { ...to, ...cited, owner, mint, opening, nullifier, refund_inner, path }
}

/** @throws ProofUnavailable */
export function prepareExitRequest(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: ExitRequestTerms,
): VaultInstruction {
  const request = requestExitInstruction(exitRequestFields(wallet, note, proofs, terms))
  note.state = 'pending'
  return request
}
