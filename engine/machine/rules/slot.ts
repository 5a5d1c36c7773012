/** Applies a newer slot: expiry, timers, due auctions, settlement packing, retention. */
import type { CommandOf } from '../../commands'
import { LIMITS, MS_PER_DAY } from '../../limits'
import { issueFees, Packer, packPayments } from '../settlement/pack'
import { closesWithin, type InstrumentState } from '../state/instrument'
import { dropAll, notesOfPayment } from '../state/note'
import type { Answer, Effects, Env } from '../state/outcome'
import { type State, settingsOf } from '../state/state'
import { holdAuction, usableReference } from './auction'
import { fireTimers } from './cancel'
import { endOrder } from './order_life'

/** Ignores a slot that is not newer. If the chain view jumps, each due instrument holds one auction. */
export function applySlot(state: State, fx: Effects, command: CommandOf<'slot'>, env: Env): Answer {
  const before = state.slot
  if (command.slot <= before) return { kind: 'done' }
  state.slot = command.slot
  const expired = expireOrders(state, fx)
  fireTimers(state, fx)
  if (state.halted === undefined) {
    const packer = new Packer(state)
    for (const instrument of state.instruments.values()) {
      if (!closesWithin(instrument, before, state.slot) || !mayMatch(state, instrument)) continue
      const reference = usableReference(state, instrument)
      if (reference === undefined) continue
      holdAuction(state, fx, env, packer, instrument, reference, expired.get(instrument) ?? [])
    }
    issueFees(state, packer)
    packPayments(state, packer)
  }
  forgetEnded(state)
  return { kind: 'done' }
}

/** An auction needs orders; it is postponed while too many fills are not on chain. */
function mayMatch(state: State, instrument: InstrumentState): boolean {
  const { unlanded } = state.settlement
  return instrument.status === 'active' && instrument.live > 0 && unlanded <= LIMITS.unlanded_auction_max
}

/** Expires orders after their expiry slot, by slot and id, so that the result does not depend on the order of arrival. */
function expireOrders(state: State, fx: Effects): Map<InstrumentState, string[]> {
  const expired = new Map<InstrumentState, string[]>()
  for (const due of state.orders.dueUpTo(state.slot - 1)) {
    const orders = due.map((order) => ({ order, order_id: order.order_id }))
    orders.sort((a, b) => (a.order_id < b.order_id ? -1 : 1))
    for (const { order, order_id } of orders) {
      const { instrument } = order
      endOrder(state, fx, order, { status: 'expired' })
      const ids = expired.get(instrument)
      if (ids === undefined) expired.set(instrument, [order_id])
      else ids.push(order_id)
    }
  }
  return expired
}

/**
 * Drops closed orders and payments after their retention, so that memory stays bounded. Their ids are kept until the expiry
 * slot of their body: a later resend then fails on its expiry (protocol.md "Order of checks").
 */
function forgetEnded(state: State): void {
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
