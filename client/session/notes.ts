/** Chooses the notes of a session's requests, and forgets what the venue refused. */
import { dropRefused, dropRefusedPayment } from '../wallet/prepare'
import type { Wallet, WalletNote, WalletRequest } from '../wallet/wallet'

/** The wallet forgets what the venue refused. */
export function drop(wallet: Wallet, sent: WalletRequest): void {
  if (sent.kind === 'place' || sent.kind === 'modify') dropRefused(wallet, sent.id)
  if (sent.kind === 'withdraw' || sent.kind === 'reshape') dropRefusedPayment(wallet, sent.request)
}

/** The largest notes of one key, as few as reach `amount` and four at most; undefined where a key's notes do not. */
export function mergeable(notes: readonly WalletNote[], amount: bigint): WalletNote[] | undefined {
  for (const own of Map.groupBy(notes, ({ key_index }) => key_index).values()) {
    if (total(own) < amount || own.length < 2) continue
    const largest = own.toSorted((a, b) => (BigInt(a.amount) > BigInt(b.amount) ? -1 : 1)).slice(0, 4)
    let count = 2
    while (count < largest.length && total(largest.slice(0, count)) < amount) count++
    return largest.slice(0, count)
  }
  return undefined
}
export const total = (notes: readonly WalletNote[]): bigint =>
  notes.reduce((sum, note) => sum + BigInt(note.amount), 0n)
