/** Applies what takes orders out of the book: cancel, cancel-all, the dead-man timer and cancel-on-disconnect. */

import type { CommandOf } from '../commands'
import { LIMITS } from '../limits'
import { addToBucket, dueSlots, removeFromBucket } from './buckets'
import { accountOf, bindKey } from './check_signer'
import type { CancelPlan } from './decide_cancel'
import type { CancelAllPlan } from './decide_cancel_all'
import type { DeadManPlan } from './decide_dead_man'
import type { Effects } from './effects'
import { cancelOrders, endOrder } from './end_order'
import type { Answer } from './outcome'
import type { State } from './state'

export function applyCancel(
  state: State,
  fx: Effects,
  command: CommandOf<'cancel'>,
  plan: CancelPlan,
): Answer {
  const { order } = plan
  const order_id = command.order_id.toHex()
  order.key.cancel_nonce = command.cancel_nonce
  const seq = endOrder(state, fx, order, { status: 'cancelled', reason: 'by_owner' })
  return { kind: 'cancel', result: { order_id, status: 'cancelled', seq } }
}

export function applyCancelAll(
  state: State,
  fx: Effects,
  command: CommandOf<'cancel_all'>,
  plan: CancelAllPlan,
): Answer {
  for (const { signer, cancel_nonce } of plan.signers) bindKey(state, signer).cancel_nonce = cancel_nonce
  const cancelled = cancelOrders(state, fx, plan.orders, 'cancel_all')
  return { kind: 'cancel_all', result: { cancelled, seq: accountOf(state, command.account_id).seq } }
}

export function applyDeadMan(state: State, command: CommandOf<'dead_man'>, plan: DeadManPlan): Answer {
  const key = bindKey(state, plan.signer)
  key.cancel_nonce = command.cancel_nonce
  if (key.dead_man_slot > 0) removeFromBucket(state.timers, key.dead_man_slot, key)
  const armed = command.timeout_slots > 0
  key.dead_man_slot = armed ? state.slot + command.timeout_slots : 0
  if (armed) addToBucket(state.timers, key.dead_man_slot, key)
  const expires_slot = armed ? key.dead_man_slot : null
  return { kind: 'dead_man', result: { expires_slot, seq: key.account.seq } }
}

/** Fires the timers that are due at the state's slot; keys in the order of binding. */
export function fireTimers(state: State, fx: Effects): void {
  for (const slot of dueSlots(state.timers, 0, state.slot)) {
    for (const key of [...state.timers.get(slot)!].sort((a, b) => a.index - b.index)) {
      key.dead_man_slot = 0
      cancelOrders(state, fx, state.orders.of(key), 'deadman')
    }
    state.timers.delete(slot)
  }
}

export function applyArmDisconnect(state: State, command: CommandOf<'arm_disconnect'>): Answer {
  const { armed } = accountOf(state, command.account_id)
  armed.delete(command.origin)
  if (command.armed) {
    if (armed.size >= LIMITS.account_origins_max) armed.delete(armed.values().next().value!)
    armed.add(command.origin)
  }
  return { kind: 'done' }
}

export function applyDisconnected(state: State, fx: Effects, command: CommandOf<'disconnected'>): Answer {
  const account = accountOf(state, command.account_id)
  if (!account.armed.delete(command.origin)) return { kind: 'done' }
  for (const key of account.keys) {
    const orders = state.orders.of(key).filter((order) => order.origin === command.origin)
    cancelOrders(state, fx, orders, 'disconnect')
  }
  return { kind: 'done' }
}
