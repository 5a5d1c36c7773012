/** Drops final orders and payments whose retention has passed, so that memory stays bounded. */
import { LIMITS, MS_PER_DAY } from '../limits'
import { dropAll, notesOfPayment } from './note_holders'
import { type State, settingsOf } from './state'

/** Ids outlive the expiry slot of their body: an older body then fails on its expiry (protocol.md "Order of checks"). */
export function forgetEnded(state: State): void {
  const retained_ms = state.unix_ms - settingsOf(state).retention_days * MS_PER_DAY
  const { finals, slot } = state
  for (let final = finals.oldest(); final !== undefined; final = finals.oldest()) {
    const old = final.final_unix_ms < retained_ms || finals.size > LIMITS.final_orders_max
    if (!old || final.expiry_slot >= slot) break
    finals.dropOldest()
  }
  const { payments } = state.settlement
  for (const [id, payment] of payments) {
    const ended = payment.ended_unix_ms > 0 && payment.expiry_slot < slot
    const old = payment.ended_unix_ms < retained_ms || payments.size > LIMITS.payments_kept_max
    if (!ended || !old) break
    payments.delete(id)
    dropAll(state.notes, notesOfPayment(payment))
  }
}
