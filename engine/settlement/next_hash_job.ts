/** What the hashing worker must compute next. */
import { concatBytes } from '../../protocol/bytes'
import type { HashJob } from '../ports'
import { hexBytes, keyBytes, type State } from '../state/state'
import { unopenedExits } from './batch_entries'

/**
 * The oldest packed batch that is not hashed, or undefined. Batches are hashed strictly in order, because a batch
 * spends notes that earlier ones create.
 */
export function nextHashJob(state: State): HashJob | undefined {
  const batch = state.settlement.batches.get(state.settlement.last_hashed + 1)
  if (batch === undefined) return undefined
  const { batch_id, generation } = batch
  const owners = new Map<string, Uint8Array>()
  const ownerOf = (text: string) => {
    const bytes = owners.get(text) ?? state.keys.get(text)?.bytes ?? keyBytes(text)
    owners.set(text, bytes)
    return bytes
  }
  return {
    batch_id,
    inputs: [
      ...batch.inputs.map(({ commitment_bytes: commitment, blinding }) => {
        if (commitment === undefined || blinding === undefined) throw new Error('an input is not hashed yet')
        return { commitment, blinding }
      }),
      ...unopenedExits(batch).map(({ nullifier }) => ({ nullifier: hexBytes(nullifier, 32) })),
    ],
    outputs: batch.outputs.map(({ note, anchor, order_id, nonce, index_role }) => ({
      anchor: concatBytes(anchor),
      order_id: hexBytes(order_id, 16),
      nonce,
      generation,
      index_role,
      owner: ownerOf(note.owner),
      mint: state.mints[note.mint]!.bytes,
      amount: note.amount,
    })),
    refunds: batch.payouts.flatMap((payout) => {
      if (payout.kind === 'exit') return []
      const { change_anchor: anchor, nonce, key } = payout
      return [{ anchor, nonce, generation, index_role: 3, owner: key.bytes }]
    }),
  }
}
