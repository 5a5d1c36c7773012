/** Updates a wallet from the chain: recovered notes, spent notes, refunds and counters. */

import { encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { ANCHORS_PER_COMMAND } from '../../protocol/notes/derive'
import { depositCommitment, noteInner, nullifierOf } from '../../protocol/notes/notes'
import { type Amount, parseU64 } from '../../protocol/units'
import type { Nonces } from '../../protocol/wire/trading'
import { ownOutput, paymentSource, WalletMismatch } from './absorb'
import type { KeyScan } from './recover'
import type { VaultHistory } from './vault_history'
import type { Wallet, WalletNote } from './wallet'

/** Marks notes that the history shows spent: a served exit spends its note without an event. @returns the marked notes */
export function markSpent(wallet: Wallet, history: VaultHistory): WalletNote[] {
  const gone = wallet.state.notes.filter((note) => {
    if (note.state === 'spent') return false
    const nullifier = toHex(nullifierOf(fromHex(note.commitment, 32)!, fromHex(note.blinding, 32)!))
    return history.spent.has(nullifier)
  })
  for (const note of gone) note.state = 'spent'
  return gone
}

/** Index and role of a withdrawal's refund (protocol.md "Notes"). */
export const REFUND_INDEX_ROLE = 3

/** The leaf index of a commitment (hex) in the note tree; undefined while it is not there. */
export type FindLeaf = (commitment: string) => Promise<number | undefined>

/**
 * Adds the notes that the program made for withdrawals with an unusable destination. `withdrawal.refunded` names such a
 * note's commitment, which covers a leaf index that only the chain chooses; `findLeaf` asks the venue's `/tree/inclusion`
 * or a history (`leafFinder`). Neither is trusted: another leaf index gives another commitment.
 * @returns the added notes. @throws WalletMismatch
 */
export async function adoptRefunds(wallet: Wallet, findLeaf: FindLeaf): Promise<WalletNote[]> {
  const adopted: WalletNote[] = []
  for (const payment of wallet.state.payments) {
    const { refund } = payment
    if (refund === undefined || wallet.note(refund.commitment) !== undefined) continue
    const leaf_index = await findLeaf(refund.commitment)
    if (leaf_index === undefined) continue
    const note = ownOutput(wallet, paymentSource(wallet, refund.generation, payment, REFUND_INDEX_ROLE), {
      commitment: refund.commitment,
      mint: refund.mint,
      amount: BigInt(payment.amounts[0]!),
      leaf_index,
      origin: 'refund',
      state: 'free',
    })
    wallet.addNote(note)
    adopted.push(note)
  }
  return adopted
}

/**
 * Raises a key's counters to the nonces that the venue has seen: orders that never filled leave no trace on chain.
 * Command n uses nonce n + 1, so the last used nonce is the count of commands. Counters never decrease.
 * @throws WalletMismatch for a nonce that no wallet can have used
 */
export function alignCounters(wallet: Wallet, key_index: number, nonces: Nonces): void {
  const counters = wallet.counters(key_index)
  counters.commands = Math.max(counters.commands, countOf(nonces.place_nonce, COMMANDS_OF_A_KEY))
  counters.cancels = Math.max(counters.cancels, countOf(nonces.cancel_nonce, Number.MAX_SAFE_INTEGER))
}
const COMMANDS_OF_A_KEY = 2 ** 32 / ANCHORS_PER_COMMAND

function countOf(nonce: string, below: number): number {
  const count = parseU64(nonce)
  if (count === undefined || count >= below) throw new WalletMismatch('a nonce of the venue')
  return Number(count)
}

export type RecoveredNote = {
  commitment: Uint8Array
  mint: Uint8Array
  amount: Amount
  blinding: Uint8Array
  leaf_index?: number
  origin: WalletNote['origin']
}

/** Adds a recovered note, spent or free according to the history. */
export function keepRecovered(scan: KeyScan, note: RecoveredNote): void {
  const { wallet, history, key_index } = scan
  const { blinding, leaf_index, origin } = note
  const commitment = toHex(note.commitment)
  if (wallet.note(commitment) !== undefined) return
  const nullifier = toHex(nullifierOf(note.commitment, blinding))
  const batch = history.spent.get(nullifier)
  const mint = encodeBase58(note.mint)
  if (batch !== undefined && history.exits.get(nullifier)?.payout === undefined)
    scan.spending.note(batch, { mint, amount: note.amount })
  wallet.addNote({
    commitment,
    key_index,
    mint,
    amount: String(note.amount),
    blinding: toHex(blinding),
    ...(leaf_index === undefined ? {} : { leaf_index }),
    state: batch === undefined ? 'free' : 'spent',
    origin,
  })
}

/** Adds every note that the program made for this blinding. @returns its inner hash, hex, and whether any note used it */
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

/**
 * Adds missing notes, marks spent ones and raises counters; a pending note stays pending unless it is spent.
 * @param recovered the wallet that `recoverWallet` found in `history` for the same seed
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

/**
 * Brings a wallet up to date with a frozen vault, where nothing lands any more: a note that a batch should have spent is free
 * if none did, outputs of such batches are gone, and every order is closed. @param recovered as for `absorbRecovered`
 */
export function absorbFrozen(wallet: Wallet, recovered: Wallet, history: VaultHistory) {
  const leaves = new Set(history.leaves.map(toHex))
  wallet.state.notes = wallet.state.notes.filter(({ commitment }) => leaves.has(commitment))
  for (const note of wallet.state.notes) note.state = 'free'
  for (const order of wallet.state.orders) order.open = false
  return absorbRecovered(wallet, recovered, history)
}
