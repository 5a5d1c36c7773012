/** The two trees a hashing worker owns: finalized note leaves and spent nullifiers. */
import { equalBytes } from '../../protocol/bytes'
import { MerkleTree, type TreeNodes } from '../../protocol/merkle_tree'
import { SpentTree } from '../../protocol/spent_tree'

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
