/** Ends a withdrawal or reshape that will not settle; notes it holds unspent are free again. */
import type { Reshape, Withdrawal } from '../settlement/batch'
import { reshapeView, withdrawalView } from '../settlement/payment_view'
import type { Effects } from './effects'
import { releaseNote } from './lock_note'
import type { State } from './state'

export function voidPayment(state: State, fx: Effects, payment: Withdrawal | Reshape): void {
  const { waiting } = state.settlement
  const at = waiting.indexOf(payment)
  if (at !== -1) waiting.splice(at, 1)
  payment.status = 'voided'
  payment.ended_unix_ms = state.unix_ms
  const { account } = payment.key
  if (payment.kind === 'withdrawal') {
    releaseNote(payment.note)
    payment.seq = fx.emit(account, 'withdrawal.voided', (seq) => withdrawalView(payment, seq))
  } else {
    payment.inputs.forEach(releaseNote)
    payment.seq = fx.emit(account, 'reshape.voided', (seq) => reshapeView(payment, seq))
  }
}
