/** Decides and applies the commands that cancel orders: cancel, cancel-all, dead-man timer, cancel-on-disconnect. */
import type { CancelAllFields, CancelFields, CommandOf } from '../../commands'
import { LIMITS } from '../../limits'
import { addToBucket, dueSlots, removeFromBucket } from '../../memory/buckets'
import type { Order } from '../state/order'
import { type Answer, type Effects, type RefusedOutcome, refuse } from '../state/outcome'
import type { State } from '../state/state'
import { accountOf, bindKey, checkKeyLimit, checkNonce, checkSigner, type Signer } from './checks'
import { cancelOrders, endOrder } from './order_life'

type CancelPlan = { ok: true; signer: Signer; order: Order }

export function decideCancel(state: State, command: CommandOf<'cancel'>): CancelPlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  return findCancellable(state, command, signer)
}

/** Refuses `order_unknown`, `not_owner`, `order_final` with its status, `nonce_stale`, in this order; shared with modify. */
export function findCancellable(
  state: State,
  body: CancelFields,
  signer: Signer,
): CancelPlan | RefusedOutcome {
  const order = state.orders.find(body.order_id)
  const final = order === undefined ? state.finals.find(body.order_id) : undefined
  const owner = order?.key.text ?? final?.trading_key
  if (owner === undefined) return refuse('order_unknown')
  if (owner !== signer.text) return refuse('not_owner')
  if (final !== undefined) return refuse('order_final', { status_now: final.status })
  const stale = checkNonce(signer.key, 'cancel_nonce', body.cancel_nonce)
  return stale ?? { ok: true, signer, order: order! }
}

type CancelAllPlan = {
  ok: true
  signers: { signer: Signer; cancel_nonce: bigint }[]
  /** Without repeats; item by item, each in the order of arrival. */
  orders: Order[]
}

/** All items take effect together or none does. The nonce of an item must also exceed those of items before it. */
export function decideCancelAll(
  state: State,
  command: CommandOf<'cancel_all'>,
): CancelAllPlan | RefusedOutcome {
  const account = accountOf(state, command.account_id)
  const signers: CancelAllPlan['signers'] = []
  for (const item of command.items) {
    const signer = checkSigner(state, account.account_id, item.trading_key)
    if (!signer.ok) return signer
    signers.push({ signer, cancel_nonce: item.cancel_nonce })
  }
  const last = new Map<string, bigint>()
  const fresh = new Set<string>()
  for (const { signer, cancel_nonce } of signers) {
    const nonce_last = last.get(signer.text) ?? signer.key?.cancel_nonce ?? 0n
    if (cancel_nonce <= nonce_last) return refuse('nonce_stale', { nonce_last: nonce_last.toString() })
    last.set(signer.text, cancel_nonce)
    if (signer.key === undefined) fresh.add(signer.text)
  }
  const unbound = signers.find(({ signer }) => signer.key === undefined)
  const limit = unbound === undefined ? undefined : checkKeyLimit(unbound.signer, fresh.size)
  if (limit !== undefined) return limit
  return { ok: true, signers, orders: ordersOf(state, signers, command.items) }
}

function ordersOf(state: State, signers: CancelAllPlan['signers'], items: CancelAllFields[]): Order[] {
  const orders = new Map<number, Order>()
  signers.forEach(({ signer }, at) => {
    const { symbol } = items[at]!
    for (const order of signer.key === undefined ? [] : state.orders.of(signer.key)) {
      if (symbol === undefined || order.instrument.terms.symbol === symbol) orders.set(order.handle, order)
    }
  })
  return [...orders.values()]
}

type DeadManPlan = { ok: true; signer: Signer }

export function decideDeadMan(state: State, command: CommandOf<'dead_man'>): DeadManPlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  const refused = checkNonce(signer.key, 'cancel_nonce', command.cancel_nonce) ?? checkKeyLimit(signer)
  return refused ?? { ok: true, signer }
}

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

/** Fires the dead-man timers that are due; within a slot, keys in the order of binding. */
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
