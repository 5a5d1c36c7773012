/** The hashing worker's two trees, and the hashes of one settlement batch. */
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

// The two trees a hashing worker owns: finalized note leaves and spent nullifiers.

export type Trees = { notes: MerkleTree; spent: SpentTree; last_batch_id: number }

/** Leaves are appended in runs and paths asked for one by one: these levels are worth more as memory. */
const NOTE_LEVELS_SKIPPED = 2

export function noteTree(nodes?: TreeNodes): MerkleTree {
  return new MerkleTree(nodes, NOTE_LEVELS_SKIPPED)
}

export function emptyTrees(): Trees {
  return { notes: noteTree(), spent: new SpentTree(), last_batch_id: 0 }
}

/** Appends what is new of `leaves` at `first_index`. @throws Error on a gap or on a leaf that differs from a known one. */
export function appendLeaves(trees: Trees, first_index: number, leaves: Uint8Array[]): void {
  const known = trees.notes.leaf_count - first_index
  if (known < 0) throw new Error('leaves leave a gap')
  const overlap = leaves.slice(0, known)
  if (overlap.some((leaf, at) => !equalBytes(leaf, trees.notes.leaf(first_index + at)))) {
    throw new Error('a finalized leaf changed')
  }
  trees.notes.append(leaves.slice(overlap.length))
}

/** Inserts batches that follow the last one without a gap; earlier ones are already inside. */
export function restoreSpent(trees: Trees, batches: { batch_id: number; nullifiers: Uint8Array[] }[]): void {
  const fresh = batches.filter((batch) => batch.batch_id > trees.last_batch_id)
  fresh.forEach((batch, at) => {
    if (batch.batch_id !== trees.last_batch_id + 1 + at) throw new Error('settlement batches leave a gap')
  })
  trees.spent.insertBatches(fresh.map((batch) => batch.nullifiers))
  trees.last_batch_id += fresh.length
}

// Hashes one settlement batch: nullifiers of its inputs, blindings, commitments and memos of its outputs, spent root.

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
