/** Updates the hashing worker's note tree and spent log, and hashes settlement batches. */

import { compareBytes, equalBytes } from '../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf, TreeLevel } from '../../protocol/notes/merkle_tree'
import {
  encodeMemo,
  noteInner,
  nullifierOf,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import type { HashJob, HashOutput, HashRefund, HashResult } from '../ports'

/** Finalized note leaves, and the spent log of the hashed batches. */
export type Trees = { notes: MerkleTree; spent: SpentLog }

/** Levels of the note tree that are recomputed rather than stored: leaves come in runs and paths are read singly. */
const NOTE_LEVELS_SKIPPED = 2

/** @param levelOf the level of a height in the tree of a name */
export function treesOf(levelOf: (tree: keyof Trees, height: number) => TreeLevel): Trees {
  return {
    notes: new MerkleTree((height) => levelOf('notes', height), NOTE_LEVELS_SKIPPED),
    spent: new SpentLog((height) => levelOf('spent', height)),
  }
}

export function emptyTrees(): Trees {
  return treesOf(() => new TreeLevel())
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

/** Makes consecutive batches the end of the log, in place of those known from the first that differs. @throws Error on a gap */
export function restoreSpent(trees: Trees, batches: { batch_id: number; nullifiers: Uint8Array[] }[]): void {
  const first = batches[0]?.batch_id ?? 0
  if (first > trees.spent.leaf_count + 1 || batches.some(({ batch_id }, at) => batch_id !== first + at))
    throw new Error('settlement batches leave a gap')
  const leaves = batches.map(({ batch_id, nullifiers }) => spentLogLeaf(batch_id, nullifiers))
  const known = Math.min(leaves.length, trees.spent.leaf_count - first + 1)
  const same = leaves
    .slice(0, known)
    .findIndex((leaf, at) => !equalBytes(leaf, trees.spent.leaf(first - 1 + at)))
  if (same !== -1) trees.spent.truncate(first - 1 + same)
  trees.spent.append(leaves.slice(same === -1 ? known : same))
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
 * Hashes the next settlement batch and appends it to the spent log. The newest batch may be requested again (a crash lost
 * the result before it was journaled); the log then stays unchanged.
 * @throws Error when the batch is neither the newest nor the next, or differs from the one hashed before
 */
export function hashBatch({ spent }: Trees, job: HashJob): HashResult {
  const { batch_id } = job
  const nullifiers = job.inputs.map((input) =>
    input.nullifier === undefined ? nullifierOf(input.commitment, input.blinding) : input.nullifier,
  )
  const leaf = spentLogLeaf(batch_id, [...nullifiers].sort(compareBytes))
  if (batch_id === spent.leaf_count + 1) spent.append([leaf])
  else if (batch_id !== spent.leaf_count) throw new Error('settlement batches are hashed in order')
  else if (!equalBytes(leaf, spent.leaf(batch_id - 1))) throw new Error('a hashed batch changed')
  const refund_blindings = job.refunds.map(refundBlinding)
  return {
    nullifiers,
    outputs: job.outputs.map(hashOutput),
    refund_inners: job.refunds.map((refund, at) => noteInner(refund.owner, refund_blindings[at]!)),
    refund_blindings,
  }
}
