/** What withdrawals and reshapes are checked for first: who signs, whether it came before, its nonce and its expiry. */
import type { CommandOf } from '../commands'
import type { Reshape, Withdrawal } from '../settlement/batch'
import { reshapeView, withdrawalView } from '../settlement/payment_view'
import { checkExpiry } from './check_expiry'
import { checkNonce } from './check_nonce'
import { checkSigner, type Signer } from './check_signer'
import { type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

type PaymentCommand = CommandOf<'withdraw' | 'reshape'>

/**
 * Refuses, in this order, `key_bound`, `account_suspended`, `order_id_taken` or `order_exists` with the first result,
 * `nonce_stale`, `expiry_too_soon` and `expiry_too_far` (protocol.md "Order of checks").
 */
export function checkPayment(state: State, command: PaymentCommand): Signer | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  if (signer.account.status === 'suspended') return refuse('account_suspended')
  const refused =
    checkResend(state, command) ??
    checkNonce(signer.key, 'place_nonce', command.nonce) ??
    checkExpiry(state, command.expiry_slot, state.slot)
  return refused ?? signer
}

/** The id is a hash of the body, so a known id is the same command again. */
function checkResend(state: State, command: PaymentCommand): RefusedOutcome | undefined {
  const [kind, id] =
    command.kind === 'withdraw' ? ['withdrawal', command.withdrawal_id] : ['reshape', command.reshape_id]
  const known = state.settlement.payments.get(id.toHex())
  if (known === undefined) return undefined
  if (known.kind !== kind) return refuse('order_id_taken')
  return refuse('order_exists', { result: firstResult(known) })
}

/** What the command was answered with when it was accepted. */
function firstResult(known: Withdrawal | Reshape) {
  const first = { status: 'accepted' as const, settlement_batch: 0, signature: undefined }
  if (known.kind === 'reshape') return reshapeView({ ...known, ...first, outputs: [] }, known.accepted_seq)
  const unpaid = { change: undefined, refund_commitment: undefined }
  return withdrawalView({ ...known, ...first, ...unpaid }, known.accepted_seq)
}
