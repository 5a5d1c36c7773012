/** Applies withdrawals and reshapes: their notes are locked and they wait for a settlement batch. */
import type { CommandOf } from '../commands'
import type { Reshape, Withdrawal } from '../settlement/batch'
import { reshapeView, withdrawalView } from '../settlement/payment_view'
import { bindKey } from './check_signer'
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
  const key = bindKey(state, plan.signer)
  key.place_nonce = command.nonce
  const note = lockNote(state, plan.note)
  state.notes.hold(note)
  const withdrawal: Withdrawal = {
    kind: 'withdrawal',
    withdrawal_id: command.withdrawal_id.toHex(),
    key,
    note,
    commitment: command.commitment.toHex(),
    destination: command.destination,
    amount: command.amount,
    fee: plan.fee,
    nonce: command.nonce,
    change_anchor: command.change_anchor,
    expiry_slot: command.expiry_slot,
    accepted_slot: state.slot,
    change: undefined,
    status: 'accepted',
    refund_commitment: undefined,
    settlement_batch: 0,
    signature: undefined,
    accepted_seq: 0,
    seq: 0,
    ended_unix_ms: 0,
  }
  const { account } = key
  withdrawal.seq = fx.emit(account, 'withdrawal.accepted', (seq) => withdrawalView(withdrawal, seq))
  withdrawal.accepted_seq = withdrawal.seq
  state.settlement.payments.set(withdrawal.withdrawal_id, withdrawal)
  state.settlement.waiting.push(withdrawal)
  return { kind: 'withdraw', result: withdrawalView(withdrawal) }
}

export function applyReshape(
  state: State,
  fx: Effects,
  command: CommandOf<'reshape'>,
  plan: ReshapePlan,
): Answer {
  const key = bindKey(state, plan.signer)
  key.place_nonce = command.nonce
  const inputs = plan.notes.map((found) => lockNote(state, found))
  holdAll(state.notes, inputs)
  const reshape: Reshape = {
    kind: 'reshape',
    reshape_id: command.reshape_id.toHex(),
    key,
    inputs,
    commitments: command.inputs.map((one) => one.toHex()),
    amounts: command.amounts,
    nonce: command.nonce,
    anchor: command.anchor,
    expiry_slot: command.expiry_slot,
    accepted_slot: state.slot,
    outputs: [],
    status: 'accepted',
    settlement_batch: 0,
    signature: undefined,
    accepted_seq: 0,
    seq: 0,
    ended_unix_ms: 0,
  }
  reshape.seq = fx.emit(key.account, 'reshape.accepted', (seq) => reshapeView(reshape, seq))
  reshape.accepted_seq = reshape.seq
  state.settlement.payments.set(reshape.reshape_id, reshape)
  state.settlement.waiting.push(reshape)
  return { kind: 'reshape', result: reshapeView(reshape) }
}
