/** Brings a wallet up to date with one account event; every new note is recomputed, never taken on trust. */
import type { AccountEvent, Fill, NoteEvent, Order, Reshape, Withdrawal } from '../../protocol/wire'
import { absorbFill, absorbVoidedFill } from './absorb_fill'
import { absorbFinal } from './absorb_order'
import { absorbReshape, absorbWithdrawal } from './absorb_payment'
import type { Wallet } from './wallet'

export { WalletMismatch } from './own_output'

const FINAL = ['order.filled', 'order.cancelled', 'order.expired', 'order.replaced']

/**
 * Absorbs events in seq order; one already absorbed changes nothing, and one that is refused leaves the wallet at the
 * event before it.
 * @throws WalletMismatch when the venue names a note, amount or change that the wallet's derivation does not give
 */
export function absorbEvent(wallet: Wallet, generation: number, event: AccountEvent): void {
  if (event.seq <= wallet.state.seq) return
  const { kind, data } = event
  if (kind === 'fill.matched') absorbFill(wallet, generation, data as Fill)
  else if (kind === 'fill.voided') absorbVoidedFill(wallet, data as Fill)
  else if (FINAL.includes(kind)) absorbFinal(wallet, data as Order)
  else if (kind.startsWith('withdrawal.')) absorbWithdrawal(wallet, generation, data as Withdrawal)
  else if (kind.startsWith('reshape.')) absorbReshape(wallet, generation, data as Reshape)
  else if (kind === 'note.exited') absorbExited(wallet, data as NoteEvent)
  wallet.state.seq = event.seq
}

/** The note backs its exit request and nothing else any more. */
function absorbExited(wallet: Wallet, data: NoteEvent): void {
  const note = wallet.note(data.commitment)
  if (note?.state === 'free') note.state = 'pending'
}
