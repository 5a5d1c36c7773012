/** Hashes one settlement batch: nullifiers of its inputs, blindings, commitments and memos of its outputs, spent root. */
import { compareBytes } from '../../protocol/bytes'
import { encodeMemo } from '../../protocol/memo'
import { noteInner, nullifierOf, outputBlinding, settlementCommitment } from '../../protocol/notes'
import type { HashJob, HashOutput, HashRefund, HashResult } from '../ports'
import type { Trees } from './trees'

function hashOutput(output: HashOutput): HashResult['outputs'][number] {
  const blinding = outputBlinding(output)
  const inner = noteInner(output.owner, blinding)
  const commitment = settlementCommitment({ mint: output.mint, amount: output.amount, inner })
  return { blinding, commitment, memo: encodeMemo(blinding, output.amount) }
}

function refundBlinding(refund: HashRefund): Uint8Array {
  return outputBlinding({ ...refund, order_id: new Uint8Array(16) })
}

/**
 * The newest batch may be asked for again (its answer was lost in a crash before it was journaled): then its nullifiers
 * are inside already and the tree stays as it is.
 * @throws Error when the batch is not the newest or the next, or spends a nullifier twice.
 */
export function hashBatch(trees: Trees, job: HashJob): HashResult {
  if (job.batch_id !== trees.last_batch_id && job.batch_id !== trees.last_batch_id + 1) {
    throw new Error('settlement batches are hashed in order')
  }
  const nullifiers = job.inputs.map((input) =>
    input.nullifier === undefined ? nullifierOf(input.commitment, input.blinding) : input.nullifier,
  )
  if (job.batch_id === trees.last_batch_id) {
    if (!nullifiers.every((nullifier) => trees.spent.has(nullifier)))
      throw new Error('a hashed batch changed')
  } else {
    trees.spent.insert([...nullifiers].sort(compareBytes))
    trees.last_batch_id = job.batch_id
  }
  const refund_blindings = job.refunds.map(refundBlinding)
  return {
    nullifiers,
    outputs: job.outputs.map(hashOutput),
    refund_inners: job.refunds.map((refund, at) => noteInner(refund.owner, refund_blindings[at]!)),
    refund_blindings,
    spent_root: trees.spent.root(),
    spent_count: trees.spent.spent_count,
  }
}
