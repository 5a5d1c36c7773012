/** Withdrawals and reshapes as clients see them. */
import { encodeBase58 } from '../../protocol/base58'
import type * as wire from '../../protocol/wire'
import type { Reshape, Withdrawal } from './batch'

export function withdrawalView(withdrawal: Withdrawal, seq = withdrawal.seq): wire.Withdrawal {
  const view: wire.Withdrawal = {
    withdrawal_id: withdrawal.withdrawal_id,
    commitment: withdrawal.commitment,
    destination: encodeBase58(withdrawal.destination),
    amount: withdrawal.amount.toString(),
    fee: withdrawal.fee.toString(),
    status: withdrawal.status,
    seq,
  }
  if (withdrawal.change?.commitment !== undefined) view.change_commitment = withdrawal.change.commitment
  if (withdrawal.refund_commitment !== undefined) view.refund_commitment = withdrawal.refund_commitment
  if (withdrawal.settlement_batch > 0) view.settlement_batch = withdrawal.settlement_batch
  if (withdrawal.signature !== undefined) view.signature = withdrawal.signature
  return view
}

/** `outputs` is empty until the settlement batch is hashed. */
export function reshapeView(reshape: Reshape, seq = reshape.seq): wire.Reshape {
  const outputs: wire.Reshape['outputs'] = []
  for (const { commitment, amount } of reshape.outputs) {
    if (commitment !== undefined) outputs.push({ commitment, amount: amount.toString() })
  }
  const view: wire.Reshape = {
    reshape_id: reshape.reshape_id,
    inputs: reshape.commitments,
    outputs,
    status: reshape.status,
    seq,
  }
  if (reshape.settlement_batch > 0) view.settlement_batch = reshape.settlement_batch
  if (reshape.signature !== undefined) view.signature = reshape.signature
  return view
}
