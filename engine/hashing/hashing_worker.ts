/** Runs the thread that owns Poseidon and both trees, and answers requests one at a time, in order. */

import { mkdirSync } from 'node:fs'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { installPoseidon } from '../../protocol/notes/poseidon'
import { LIMITS } from '../limits'
import { collectWhenQuiet } from '../memory/idle_gc'
import type { HashJob } from '../ports'
import { appendLeaves, hashBatch, restoreSpent, TreeFiles, TreesDamaged } from './tree_files'

export type HashingRequest =
  | { op: 'open'; dir: string; key: Uint8Array }
  | { op: 'hash_batch'; job: HashJob }
  | { op: 'append_leaves'; first_index: number; leaves: Uint8Array[] }
  | { op: 'restore_spent'; batches: { batch_id: number; nullifiers: Uint8Array[] }[] }
  | { op: 'truncate_spent'; batch_count: number }
  | { op: 'leaves'; from: number; limit: number }
  | { op: 'inclusion'; leaf_index: number }
  | { op: 'spent_path'; batch_id: number; batch_count: number }
  | { op: 'close' }
/** State of the trees, mirrored by the main thread after each reply. */
export type HashingView = {
  leaf_count: number
  root: Uint8Array
  batch_count: number
  spent_root: Uint8Array
}
export type HashingReply =
  | { id: number; view: HashingView; value: unknown }
  | { id: number; error: string; ends: boolean }

const native = loadNativePoseidon()
if (native !== undefined) installPoseidon(native)

let files: TreeFiles
let changes = 0

function open({ dir, key }: { dir: string; key: Uint8Array }): void {
  mkdirSync(dir, { recursive: true })
  files = new TreeFiles(dir, key)
}

function changed(by: number): void {
  changes += by
  if (changes < LIMITS.tree_save_every) return
  files.save()
  changes = 0
}

function answer(request: HashingRequest): unknown {
  if (request.op === 'open') return open(request)
  const { trees } = files
  switch (request.op) {
    case 'hash_batch': {
      const result = hashBatch(trees, request.job)
      changed(1)
      return result
    }
    case 'append_leaves':
      appendLeaves(trees, request.first_index, request.leaves)
      return changed(request.leaves.length)
    case 'restore_spent':
      restoreSpent(trees, request.batches, () => files.save())
      return changed(request.batches.length)
    case 'truncate_spent':
      trees.spent.truncate(request.batch_count)
      return files.save()
    case 'leaves': {
      const length = Math.max(0, Math.min(request.limit, trees.notes.leaf_count - request.from))
      return Array.from({ length }, (_, at) => trees.notes.leaf(request.from + at))
    }
    case 'inclusion':
      return {
        leaf: trees.notes.leaf(request.leaf_index),
        siblings: trees.notes.siblings(request.leaf_index),
      }
    case 'spent_path': {
      const { batch_id, batch_count } = request
      return {
        siblings: trees.spent.siblings(batch_id - 1, batch_count),
        root: trees.spent.root(batch_count),
      }
    }
    case 'close':
      return files.close()
  }
}

function view(): HashingView {
  const { trees } = files
  return {
    leaf_count: trees.notes.leaf_count,
    root: trees.notes.root(),
    batch_count: trees.spent.leaf_count,
    spent_root: trees.spent.root(),
  }
}

declare const self: Worker
const worked = collectWhenQuiet()

self.onmessage = (message: MessageEvent<{ id: number; request: HashingRequest }>) => {
  worked()
  const { id, request } = message.data
  try {
    const value = answer(request)
    self.postMessage({ id, view: view(), value } satisfies HashingReply)
  } catch (error) {
    const { message: said } = error as Error
    const ends = error instanceof TreesDamaged
    self.postMessage({ id, error: said, ends } satisfies HashingReply)
  }
}
