/** Applies a newer slot: expiry, timers, due auctions, settlement packing, forgetting what retention has passed. */
import type { CommandOf } from '../commands'
import { LIMITS } from '../limits'
import { issueFees } from '../settlement/issue_fees'
import { packPayments } from '../settlement/pack_payments'
import { Packer } from '../settlement/packer'
import { fireTimers } from './apply_cancel'
import type { Effects } from './effects'
import { endOrder } from './end_order'
import { forgetEnded } from './forget_ended'
import { holdAuction, usableReference } from './hold_auction'
import { closesWithin, type InstrumentState } from './instrument'
import type { Answer, Env } from './outcome'
import type { State } from './state'

/** A slot that is not newer changes nothing. The chain view may jump: each due instrument then holds one auction. */
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

/** An auction without orders is none; one with too much unlanded behind it is postponed. */
function mayMatch(state: State, instrument: InstrumentState): boolean {
  const { unlanded } = state.settlement
  return instrument.status === 'active' && instrument.live > 0 && unlanded <= LIMITS.unlanded_auction_max
}

/** An order lives through its expiry slot. By slot and id, so that the order of arrival leaves no trace. */
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
