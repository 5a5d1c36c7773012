/** Applies withdrawals and reshapes: their notes are locked and they wait for a settlement batch. */
import type { CommandOf } from '../commands'
import type { Reshape, Withdrawal } from '../settlement/batch'
import { reshapeView, withdrawalView } from '../settlement/payment_view'
import { bindKey, type Signer } from './check_signer'
import type { ReshapePlan } from './decide_reshape'
import type { WithdrawPlan } from './decide_withdraw'
import type { Effects } from './effects'
import { lockNote } from './lock_note'
import { holdAll } from './note_holders'
import type { Answer } from './outcome'
import type { State } from './state'

export function applyWithdraw(
  state: State,
  fx: Effects,
  command: CommandOf<'withdraw'>,
  plan: WithdrawPlan,
): Answer {
  const terms = openPayment(state, command, plan.signer)
  const note = lockNote(state, plan.note)
  state.notes.hold(note)
  const withdrawal: Withdrawal = {
    ...terms,
    kind: 'withdrawal',
    withdrawal_id: command.withdrawal_id.toHex(),
    note,
    commitment: command.commitment.toHex(),
    destination: command.destination,
    amount: command.amount,
    fee: plan.fee,
    change_anchor: command.change_anchor,
    change: undefined,
    refund_commitment: undefined,
  }
  const { account } = terms.key
  withdrawal.seq = fx.emit(account, 'withdrawal.accepted', (seq) => withdrawalView(withdrawal, seq))
  enqueue(state, withdrawal.withdrawal_id, withdrawal)
  return { kind: 'withdraw', result: withdrawalView(withdrawal) }
}

export function applyReshape(
  state: State,
  fx: Effects,
  command: CommandOf<'reshape'>,
  plan: ReshapePlan,
): Answer {
  const terms = openPayment(state, command, plan.signer)
  const inputs = plan.notes.map((found) => lockNote(state, found))
  holdAll(state.notes, inputs)
  const reshape: Reshape = {
    ...terms,
    kind: 'reshape',
    reshape_id: command.reshape_id.toHex(),
    inputs,
    commitments: command.inputs.map((one) => one.toHex()),
    amounts: command.amounts,
    anchor: command.anchor,
    outputs: [],
  }
  const { account } = terms.key
  reshape.seq = fx.emit(account, 'reshape.accepted', (seq) => reshapeView(reshape, seq))
  enqueue(state, reshape.reshape_id, reshape)
  return { kind: 'reshape', result: reshapeView(reshape) }
}

/** What every payment begins as; its key is bound and its nonce used. */
function openPayment(state: State, command: CommandOf<'withdraw' | 'reshape'>, signer: Signer) {
  const { nonce, expiry_slot } = command
  const key = bindKey(state, signer)
  key.place_nonce = nonce
  return {
    key,
    nonce,
    expiry_slot,
    accepted_slot: state.slot,
    status: 'accepted' as const,
    settlement_batch: 0,
    signature: undefined,
    accepted_seq: 0,
    seq: 0,
    ended_unix_ms: 0,
  }
}

/** From its first event on it is readable and waits for a settlement batch. */
function enqueue(state: State, id: string, payment: Withdrawal | Reshape): void {
  payment.accepted_seq = payment.seq
  state.settlement.payments.set(id, payment)
  state.settlement.waiting.push(payment)
}
