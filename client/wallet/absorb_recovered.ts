/** Brings a wallet up to date with what the chain alone shows of its seed. */
import { encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../protocol/notes/notes'
import type { Nonces } from '../../protocol/wire/trading'
import { ownOutput, paymentSource } from './absorb'
import type { KeyScan } from './recover'
import type { VaultHistory } from './vault_history'
import type { Wallet, WalletNote } from './wallet'

// Marks notes that the chain says are spent: an exit the venue served is told by no account event.

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

// Refunds: when a withdrawal's destination cannot be paid, the program appends a deposit-form note in its place.
//
// `withdrawal.refunded` names the note's commitment, which covers the leaf index only the chain could choose. So the
// wallet remembers the refund and adopts it once told the leaf, by the venue's `/tree/inclusion` or by the chain's own
// events; neither is trusted, because another leaf index gives another commitment.

/** Index and role of a withdrawal's refund (protocol.md "Notes"). */
const REFUND_INDEX_ROLE = 3

/** Where a commitment stands in the note tree; undefined while it is not there. */
type FindLeaf = (commitment: string) => Promise<number | undefined>

/** Adds the note of every refund whose leaf is found. @returns the notes added. @throws WalletMismatch */
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

// Moves a key's counters to what the venue has used: orders that never filled leave no trace on chain.

/** Command n uses nonce n + 1, so the last nonce used is the count of commands. Counters never go back. */
export function alignCounters(wallet: Wallet, key_index: number, nonces: Nonces): void {
  const counters = wallet.counters(key_index)
  counters.commands = Math.max(counters.commands, Number(nonces.place_nonce))
  counters.cancels = Math.max(counters.cancels, Number(nonces.cancel_nonce))
}

// Puts a recovered note into the wallet, spent or free as the public history says.

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

// Brings a wallet that lives on up to date with what the chain alone tells of its seed.

/**
 * Adds notes the wallet lacks, marks those the chain says are spent, moves counters forward; what backs a command stays so.
 * @param recovered the same seed's wallet, as `recoverWallet` finds it in `history`
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
