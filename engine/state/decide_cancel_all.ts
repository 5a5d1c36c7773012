/** Decides a cancel-all command: up to 64 bodies that take effect together. */
import type { CancelAllFields, CommandOf } from '../commands'
import { checkKeyLimit } from './check_capacity'
import { accountOf, checkSigner, type Signer } from './check_signer'
import type { Order } from './order'
import { type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

export type CancelAllPlan = {
  ok: true
  signers: { signer: Signer; cancel_nonce: bigint }[]
  /** Without repeats, in the order of arrival per item. */
  orders: Order[]
}

/** The first item that fails a check refuses all; `nonce_stale` counts the items before it. */
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
