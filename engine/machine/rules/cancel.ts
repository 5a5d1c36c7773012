/** Decides and applies the commands that cancel orders: cancel, cancel-all, dead-man timer, cancel-on-disconnect. */
import type { CancelReason } from '../../../protocol/wire/trading'
import type { CancelFields, CommandOf } from '../../commands'
import { LIMITS } from '../../limits'
import { addToBucket, dueSlots, removeFromBucket } from '../../memory/buckets'
import { nodeOf, type TradingKey } from '../state/account'
import { isMember } from '../state/closed'
import { type FinalOrder, isOutlived } from '../state/live_orders'
import type { Order } from '../state/order'
import { type Answer, type Effects, type Env, type RefusedOutcome, refuse, UNREAD } from '../state/outcome'
import { indexOf, type Past, rowAt } from '../state/past'
import type { State } from '../state/state'
import { orderView } from '../state/views'
import {
  accountOf,
  bindKey,
  checkKeyLimit,
  checkNonce,
  checkSigner,
  checkWaiting,
  type Signer,
} from './checks'
import { cancelOrders, endOrder } from './order_life'

/** With `created` it cancels the order that a deferred modify will put in the place of `order`. */
type CancelPlan = { ok: true; order: Order; created: boolean }

/** An identical cancel that already waits for the decision of the batch gets its answer. */
export function decideCancel(
  state: State,
  command: CommandOf<'cancel'>,
  env: Env,
): CancelPlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  const { closed } = state
  const { order_id, cancel_nonce } = command
  const known = closed?.cancelsOf(order_id).find((one) => one.cancel_nonce === cancel_nonce)
  if (known !== undefined && known.key === signer.key)
    return { ...refuse('order_exists'), number: known.number }
  const creating = closed?.creating(order_id)
  const body = creating === undefined ? command : { ...command, order_id: creating.command.cancel.order_id }
  const found = findCancellable(state, body, signer, env)
  if (!found.ok) return found
  const refused = isMember(found.order) ? checkWaiting(state, signer.account) : undefined
  return refused ?? { ...found, created: creating !== undefined }
}

/** The closed order of an id, for its retention. */
export function finalOf(state: State, past: Past | undefined, order_id: Uint8Array): FinalOrder | undefined {
  const number = indexOf(state, past, 'finals', order_id)
  const row = number === undefined ? undefined : rowAt(state, past, 'finals', number)
  return row === undefined || isOutlived(row, state) ? undefined : state.finals.read(row)
}

/** Refuses `order_unknown`, `not_owner`, `order_final` with its status, `nonce_stale`, in this order; shared with modify. */
export function findCancellable(
  state: State,
  body: CancelFields,
  signer: Signer,
  { past }: Env,
): { ok: true; order: Order } | RefusedOutcome {
  const order = state.orders.find(body.order_id)
  const final = order === undefined ? finalOf(state, past, body.order_id) : undefined
  const owner = order?.key.text ?? final?.trading_key
  if (owner === undefined) return refuse('order_unknown')
  if (owner !== signer.text) return refuse('not_owner')
  if (final !== undefined) return refuse('order_final', { status_now: final.status })
  const stale = checkNonce(signer.key, 'cancel_nonce', body.cancel_nonce)
  return stale ?? { ok: true, order: order! }
}

type CancelAllPlan = { ok: true; signers: Signer[] }

/** All items take effect together or none does. The nonce of an item must also exceed those of items before it. */
export function decideCancelAll(
  state: State,
  command: CommandOf<'cancel_all'>,
): CancelAllPlan | RefusedOutcome {
  const account = accountOf(state, command.account_id)
  const signers: Signer[] = []
  for (const item of command.items) {
    const signer = checkSigner(state, account.account_id, item.trading_key)
    if (!signer.ok) return signer
    signers.push(signer)
  }
  const last = new Map<string, bigint>()
  const fresh = new Set<string>()
  for (const [at, signer] of signers.entries()) {
    const { cancel_nonce } = command.items[at]!
    const nonce_last = last.get(signer.text) ?? signer.key?.cancel_nonce ?? 0n
    if (cancel_nonce <= nonce_last) return refuse('nonce_stale', { nonce_last: nonce_last.toString() })
    last.set(signer.text, cancel_nonce)
    if (signer.key === undefined) fresh.add(signer.text)
  }
  const unbound = signers.find(({ key }) => key === undefined)
  return (unbound && checkKeyLimit(unbound, fresh.size)) ?? { ok: true, signers }
}

type DeadManPlan = { ok: true; signer: Signer }

export function decideDeadMan(state: State, command: CommandOf<'dead_man'>): DeadManPlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  const refused = checkNonce(signer.key, 'cancel_nonce', command.cancel_nonce) ?? checkKeyLimit(signer)
  return refused ?? { ok: true, signer }
}

/** A member of a closed batch is cancelled after its decision, and so is an order that does not exist yet. */
export function applyCancel(
  state: State,
  fx: Effects,
  command: CommandOf<'cancel'>,
  { order, created }: CancelPlan,
): Answer {
  const { order_id: id, cancel_nonce } = command
  order.key.cancel_nonce = cancel_nonce
  if (!isMember(order)) {
    const seq = endOrder(state, fx, order, { status: 'cancelled', reason: 'by_owner' })
    return fx.kept ? { kind: 'cancel', result: { order_id: id.toHex(), status: 'cancelled', seq } } : UNREAD
  }
  const { key } = order
  const batch = order.instrument.next_batch - 1
  const seq = created ? key.account.seq : announceWaiting(fx, order, 'cancel')
  const number = state.closed!.nextNumber()
  state.closed!.defer({ kind: 'cancel', number, key, cancel_nonce, order_id: id, reason: 'by_owner' })
  return { kind: 'cancel', number, result: { order_id: id.toHex(), status: 'cancel_pending', batch, seq } }
}

export function announceWaiting(fx: Effects, order: Order, pending: 'cancel' | 'replace') {
  const { status } = order
  return fx.emit(order.key.account, `order.${pending}_pending`, (seq) =>
    orderView(order, { seq, status, pending }),
  )
}

/** Ids item by item, each in the order of arrival, without repeats. */
export function applyCancelAll(
  state: State,
  fx: Effects,
  command: CommandOf<'cancel_all'>,
  { signers }: CancelAllPlan,
): Answer {
  const cancelled: string[] = []
  const pending: string[] = []
  const reason = 'cancel_all' as const
  for (const [at, signer] of signers.entries()) {
    const { cancel_nonce, symbol } = command.items[at]!
    const key = bindKey(state, signer)
    key.cancel_nonce = cancel_nonce
    for (const order of state.orders.of(key)) {
      const { id, order_id } = order
      if (symbol !== undefined && order.instrument.terms.symbol !== symbol) continue
      if (!isMember(order)) {
        cancelled.push(order_id)
        endOrder(state, fx, order, { status: 'cancelled', reason })
      } else if (!deferCancel(state, key, id, reason)) continue
      else {
        pending.push(order_id)
        announceWaiting(fx, order, 'cancel')
      }
    }
    for (const { command: modify } of state.closed?.modifiesOf(key) ?? []) {
      const { order_id: id, symbol: of } = modify.replacement
      if (symbol !== undefined && of !== symbol) continue
      if (deferCancel(state, key, id, reason)) pending.push(id.toHex())
    }
  }
  const { seq } = accountOf(state, command.account_id)
  return { kind: 'cancel_all', result: { cancelled, pending, seq } }
}

/** False when a cancel of this order waits already. */
function deferCancel(
  { closed }: State,
  key: TradingKey,
  order_id: Uint8Array,
  reason: CancelReason,
): boolean {
  if (closed!.cancelsOf(order_id).length > 0) return false
  closed!.defer({ kind: 'cancel', number: 0, key, cancel_nonce: 0n, order_id, reason })
  return true
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
      endOrders(state, fx, key, 'deadman')
    }
    state.timers.delete(slot)
  }
}

/** Cancels the orders of a key, or those with `origin`; members, and orders that modifies will create, at the decision. */
function endOrders(state: State, fx: Effects, key: TradingKey, reason: CancelReason, origin?: string): void {
  cancelOrders(
    state,
    fx,
    state.orders.of(key).filter((order) => origin === undefined || order.origin === origin),
    reason,
  )
  for (const { command } of state.closed?.modifiesOf(key) ?? []) {
    if (origin !== undefined && command.origin !== origin) continue
    const { order_id } = command.replacement
    state.closed!.end({ kind: 'cancel', number: 0, key, cancel_nonce: 0n, order_id, reason })
  }
}

export function applyArmDisconnect(state: State, command: CommandOf<'arm_disconnect'>): Answer {
  const { armed } = accountOf(state, command.account_id)
  armed.delete(command.origin)
  if (command.armed) {
    if (armed.size >= LIMITS.account_origins_max) armed.delete(armed.values().next().value!)
    armed.add(command.origin)
    state.absent.delete(nodeOf(command.origin))
  }
  return { kind: 'done' }
}

export function applyNodeAbsent(state: State, { node, spent_ms }: CommandOf<'node_absent'>): Answer {
  if (spent_ms === undefined) state.absent.delete(node)
  else state.absent.set(node, spent_ms)
  return { kind: 'done' }
}

export function applyDisconnected(state: State, fx: Effects, command: CommandOf<'disconnected'>): Answer {
  const account = accountOf(state, command.account_id)
  if (!account.armed.delete(command.origin)) return { kind: 'done' }
  for (const key of account.keys) endOrders(state, fx, key, 'disconnect', command.origin)
  return { kind: 'done' }
}
