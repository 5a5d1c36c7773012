/**
 * Refunds: when a withdrawal's destination cannot be paid, the program appends a deposit-form note in its place.
 *
 * `withdrawal.refunded` names the note's commitment, which covers the leaf index only the chain could choose. So the
 * wallet remembers the refund and adopts it once told the leaf, by the venue's `/tree/inclusion` or by the chain's own
 * events; neither is trusted, because another leaf index gives another commitment.
 */
import { paymentSource } from './absorb_payment'
import { ownOutput } from './own_output'
import type { Wallet, WalletNote } from './wallet'

/** Index and role of a withdrawal's refund (protocol.md "Notes"). */
const REFUND_INDEX_ROLE = 3

/** Where a commitment stands in the note tree; undefined while it is not there. */
export type FindLeaf = (commitment: string) => Promise<number | undefined>

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
