/** Applies a newer slot: expiry, timers, settlement packing, retention. */
import type { CommandOf } from '../../commands'
import { LIMITS, MS_PER_DAY } from '../../limits'
import { issueFees, Packer, packPayments } from '../settlement/pack'
import { isMember } from '../state/closed'
import { dropAll, notesOfPayment } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import { type State, settingsOf } from '../state/state'
import { fireTimers } from './cancel'
import { endOrder } from './order_life'

/** Ignores a slot that is not newer. A close at this slot is a separate command. */
export function applySlot(state: State, fx: Effects, command: CommandOf<'slot'>): Answer {
  if (command.slot <= state.slot) return { kind: 'done' }
  state.slot = command.slot
  state.reopens_slot = Math.max(state.reopens_slot, command.reopens_slot)
  expireOrders(state, fx)
  fireTimers(state, fx)
  if (state.halted === undefined) {
    const packer = new Packer(state, settingsOf(state).settlement_parts_max)
    issueFees(state, packer)
    packPayments(state, packer)
  }
  forgetEnded(state)
  return { kind: 'done' }
}

/**
 * Expires orders after their expiry slot, by slot and id, so that the result does not depend on the order of arrival.
 * Members of a closed batch wait for its decision.
 */
export function expireOrders(state: State, fx: Effects): void {
  for (const due of state.orders.dueUpTo(state.slot - 1)) {
    const orders = due.filter((order) => !isMember(order))
    orders.sort((a, b) => (a.order_id < b.order_id ? -1 : 1))
    for (const order of orders) endOrder(state, fx, order, { status: 'expired' })
  }
}

/**
 * Drops ended payments after their retention and the expiry slot of their body, so that a resend fails on its expiry
 * (protocol.md "Order of checks"), and the oldest ended ones beyond the bound: a resend fails on its nonce then. One that has not
 * ended, for which a destination can care for days, holds up none behind it; their number is bounded by the backlog.
 */
function forgetEnded(state: State): void {
  const retained_ms = state.unix_ms - settingsOf(state).retention_days * MS_PER_DAY
  const { slot } = state
  const { payments } = state.settlement
  for (const [id, payment] of payments) {
    if (payment.ended_unix_ms === 0) continue
    const old = payment.ended_unix_ms < retained_ms && payment.expiry_slot < slot
    if (!old && payments.size <= LIMITS.payments_kept_max) break
    payments.delete(id)
    dropAll(state.notes, notesOfPayment(payment))
  }
}
