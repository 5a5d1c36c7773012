/** Updates the hashing worker's note tree and spent tree, and hashes settlement batches. */

import { compareBytes, equalBytes } from '../../protocol/bytes'
import { MerkleTree, type TreeNodes } from '../../protocol/notes/merkle_tree'
import {
  encodeMemo,
  noteInner,
  nullifierOf,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import { SpentTree } from '../../protocol/notes/spent_tree'
import type { HashJob, HashOutput, HashRefund, HashResult } from '../ports'

/** Finalized note leaves and spent nullifiers; `last_batch_id` is the newest batch in the spent tree. */
export type Trees = { notes: MerkleTree; spent: SpentTree; last_batch_id: number }

/** Levels of the note tree that are recomputed rather than stored: leaves come in runs and paths are read singly. */
const NOTE_LEVELS_SKIPPED = 2

export function noteTree(nodes?: TreeNodes): MerkleTree {
  return new MerkleTree(nodes, NOTE_LEVELS_SKIPPED)
}

export function emptyTrees(): Trees {
  return { notes: noteTree(), spent: new SpentTree(), last_batch_id: 0 }
}

/** Appends the new part of `leaves`, which start at `first_index`. @throws Error on a gap or a changed leaf */
export function appendLeaves(trees: Trees, first_index: number, leaves: Uint8Array[]): void {
  const known = trees.notes.leaf_count - first_index
  if (known < 0) throw new Error('leaves leave a gap')
  const overlap = leaves.slice(0, known)
  if (overlap.some((leaf, at) => !equalBytes(leaf, trees.notes.leaf(first_index + at)))) {
    throw new Error('a finalized leaf changed')
  }
  trees.notes.append(leaves.slice(overlap.length))
}

/** Inserts the batches after the last one and skips earlier ones. @throws Error on a gap */
export function restoreSpent(trees: Trees, batches: { batch_id: number; nullifiers: Uint8Array[] }[]): void {
  const fresh = batches.filter((batch) => batch.batch_id > trees.last_batch_id)
  fresh.forEach((batch, at) => {
    if (batch.batch_id !== trees.last_batch_id + 1 + at) throw new Error('settlement batches leave a gap')
  })
  trees.spent.insertBatches(fresh.map((batch) => batch.nullifiers))
  trees.last_batch_id += fresh.length
}

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
 * Hashes the next settlement batch and inserts its nullifiers. The newest batch may be requested again (a crash lost
 * the result before it was journaled); the spent tree then stays unchanged.
 * @throws Error when the batch is neither the newest nor the next, or spends a nullifier twice
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
