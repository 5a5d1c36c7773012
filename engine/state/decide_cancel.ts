/** Decides a cancel command, and the cancel half of a modify. */
import type { CancelFields, CommandOf } from '../commands'
import { checkNonce } from './check_nonce'
import { checkSigner, type Signer } from './check_signer'
import type { Order } from './order'
import { type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

export type CancelPlan = { ok: true; signer: Signer; order: Order }

export function decideCancel(state: State, command: CommandOf<'cancel'>): CancelPlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  return findCancellable(state, command, signer)
}

/** Refuses `order_unknown`, `not_owner`, `order_final` with its status, `nonce_stale`, in this order. */
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
