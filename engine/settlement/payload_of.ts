/** The immutable content of a settlement batch, as the relayer signs it. */
import { compareBytes } from '../../protocol/bytes'
import type { HashResult, Payout, SettlementPayload } from '../ports'
import { hexBytes, type State } from '../state/state'
import type { SettlementBatch } from './batch'

/** Undefined until the batch is hashed, and again once it is finalized. */
export function payloadOf(state: State, batch_id: number): SettlementPayload | undefined {
  const batch = state.settlement.batches.get(batch_id)
  if (batch?.hashed === undefined) return undefined
  const { hashed } = batch
  return {
    batch_id,
    nullifiers: [...hashed.nullifiers].sort(compareBytes),
    outputs: hashed.outputs
      .map(({ commitment, memo }) => ({ commitment, memo }))
      .sort((a, b) => compareBytes(a.commitment, b.commitment)),
    payouts: payoutsOf(state, batch, hashed),
    spent_root: hashed.spent_root,
    spent_count: hashed.spent_count,
    leaf_count_min: batch.leaf_count_min,
  }
}

/** An exit repeats the refund inner of its request; that of a withdrawal was hashed with the batch. */
function payoutsOf(state: State, batch: SettlementBatch, hashed: HashResult): Payout[] {
  let refund = 0
  return batch.payouts.map((payout) => {
    const { kind, destination, amount } = payout
    if (kind === 'exit') {
      const { mint, refund_inner, nullifier } = payout
      return { kind, mint, destination, amount, refund_inner, nullifier: hexBytes(nullifier, 32) }
    }
    const { bytes: mint } = state.mints[payout.note.mint]!
    return { kind, mint, destination, amount, refund_inner: hashed.refund_inners[refund++]! }
  })
}
