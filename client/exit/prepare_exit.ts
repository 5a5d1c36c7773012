/** Builds an exit request, and a claim on a frozen vault, from a wallet's note and the public history. */
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { noteInner, nullifierOf } from '../../protocol/notes/notes'
import {
  claimEscapeInstruction,
  type NoteOpening,
  type RequestExitFields,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import type { Wallet, WalletNote } from '../wallet/wallet'
import type { VaultProofs } from './vault_proofs'

type OpenedNote = {
  nullifier: Uint8Array
  /** The trading key that must sign. */
  owner: Uint8Array
  mint: Uint8Array
  opening: NoteOpening
}

/** Opens a note in the form of the vault program, at the leaf that the history shows. */
export function openNote(wallet: Wallet, note: WalletNote, leaf_index: number): OpenedNote {
  const form = note.leaf_index === undefined ? 'settlement' : 'deposit'
  return {
    nullifier: nullifierOfNote(note),
    owner: wallet.tradingKey(note.key_index),
    mint: decodeBase58(note.mint, 32)!,
    opening: { form, amount: BigInt(note.amount), blinding: fromHex(note.blinding, 32)!, leaf_index },
  }
}

export function nullifierOfNote(note: WalletNote): Uint8Array {
  return nullifierOf(fromHex(note.commitment, 32)!, fromHex(note.blinding, 32)!)
}

export type ExitRequestTerms = {
  program: Uint8Array
  /** Pays rent and bond, and gets both back. */
  payer: Uint8Array
  /** Token account that receives the whole note. */
  destination: Uint8Array
  /** The key's next deposit blinding: the note that an unusable destination returns is then found as deposits are. */
  refund_blinding: Uint8Array
}

/** Opens a note and shows it in the tree. @throws ProofUnavailable, also for a spent note: its bond would be lost */
function shown(wallet: Wallet, note: WalletNote, proofs: VaultProofs) {
  const { leaf_index, siblings: path, ...cited } = proofs.inclusion(fromHex(note.commitment, 32)!)
  const opened = openNote(wallet, note, leaf_index)
  proofs.requireUnspent(opened.nullifier)
  return { ...cited, ...opened, path }
}

/** The fields of a request, before it is encoded. @throws ProofUnavailable */
export function exitRequestFields(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  { refund_blinding, ...to }: ExitRequestTerms,
): RequestExitFields {
  const fields = shown(wallet, note, proofs)
  return { ...to, ...fields, refund_inner: noteInner(fields.owner, refund_blinding) }
}

/** Claims a note of a frozen vault. @throws ProofUnavailable */
export function prepareClaim(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: Pick<ExitRequestTerms, 'program' | 'payer' | 'destination'>,
): VaultInstruction {
  return claimEscapeInstruction({ ...terms, ...shown(wallet, note, proofs) })
}

/** Demands that the venue pays a note out before the deadline; the note becomes pending. @throws ProofUnavailable */
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
