/** Builds an exit request: the owner demands that the venue pays a note out before the deadline. */
import { deriveDepositBlinding } from '../../protocol/derive'
import { noteInner } from '../../protocol/notes'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { requestExitInstruction } from '../../protocol/vault/request_exit'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { openNote } from './open_note'
import type { VaultProofs } from './vault_proofs'

export type ExitRequestTerms = {
  program: Uint8Array
  /** Pays rent and bond, and gets both back. */
  payer: Uint8Array
  /** Token account that receives the whole note. */
  destination: Uint8Array
}

/**
 * The refund, should the destination be unusable, is a deposit-form note under the key's next deposit blinding: recovery
 * finds it where it looks for deposits.
 * @throws ProofUnavailable
 */
export function prepareExitRequest(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: ExitRequestTerms,
): VaultInstruction {
  const { key_index } = note
  const { commitment } = openNote(wallet, note, 0)
  const { leaf_index, siblings, ...cited } = proofs.inclusion(commitment)
  const opened = openNote(wallet, note, leaf_index)
  proofs.absence(opened.nullifier)
  const blinding = deriveDepositBlinding(wallet.seed, key_index, wallet.counters(key_index).deposits++)
  const { owner, mint, opening, nullifier } = opened
  const refund_inner = noteInner(owner, blinding)
  note.state = 'pending'
  return requestExitInstruction({
    ...terms,
    ...cited,
    owner,
    mint,
    opening,
    nullifier,
    refund_inner,
    path: siblings,
  })
}
