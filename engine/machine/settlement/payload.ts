/** Reads a settlement batch as the immutable payload that the relayer signs, and as the job of the hashing worker. */
import { compareBytes, concatBytes } from '../../../protocol/bytes'
import type { HashJob, HashResult, OpenPayout, Payout, SettlementPayload } from '../../ports'
import { type SettlementBatch, unopenedExits, withdrawalsOf } from '../state/batch'
import type { State } from '../state/state'

/** Undefined until the batch is hashed, and after it is finalized. */
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
    leaf_count_min: batch.leaf_count_min,
  }
}

/** The refund inner of an exit is in its request; that of a withdrawal was hashed with the batch. */
function payoutsOf(state: State, batch: SettlementBatch, hashed: HashResult): Payout[] {
  let refund = 0
  return batch.payouts.map((payout) => {
    const { kind, destination, amount, payout_number: number } = payout
    if (kind === 'exit') {
      const { mint, refund_inner, nullifier } = payout
      return { number, kind, mint, destination, amount, refund_inner, nullifier }
    }
    const { bytes: mint } = state.mints[payout.note.mint]!
    return { number, kind, mint, destination, amount, refund_inner: hashed.refund_inners[refund++]! }
  })
}

/** Payouts in the vault's queue that are not finally closed, ascending by number. */
export function openPayouts(state: State): OpenPayout[] {
  const open = [...state.settlement.queued].map(([number, payout]) => {
    const { destination, amount } = payout
    const mint = payout.kind === 'withdrawal' ? state.mints[payout.note.mint]!.bytes : payout.mint
    const batch_id = payout.kind === 'restored' ? 0 : payout.settlement_batch
    const signature = payout.kind === 'restored' ? undefined : payout.payout_signature
    return { number, mint, destination, amount, batch_id, signature }
  })
  return open.sort((a, b) => a.number - b.number)
}

/**
 * The job for the oldest batch that is not hashed, or undefined. Batches are hashed strictly in order, because a batch may
 * spend notes that earlier ones create.
 */
export function nextHashJob(state: State): HashJob | undefined {
  const batch = state.settlement.batches.get(state.settlement.last_hashed + 1)
  if (batch === undefined) return undefined
  const { batch_id, generation } = batch
  return {
    batch_id,
    inputs: [
      ...batch.inputs.map(({ commitment, blinding }) => {
        if (commitment === undefined || blinding === undefined) throw new Error('an input is not hashed yet')
        return { commitment, blinding }
      }),
      ...unopenedExits(batch).map(({ nullifier }) => ({ nullifier })),
    ],
    outputs: batch.outputs.map(({ note, anchor, order_id, nonce, index_role }) => ({
      anchor: concatBytes(anchor),
      order_id,
      nonce,
      generation,
      index_role,
      owner: note.owner,
      mint: state.mints[note.mint]!.bytes,
      amount: note.amount,
    })),
    refunds: withdrawalsOf(batch).map(({ change_anchor: anchor, nonce, key }) => {
      return { anchor, nonce, generation, index_role: 3, owner: key.bytes }
    }),
  }
}
