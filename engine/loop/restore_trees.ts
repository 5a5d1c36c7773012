/** Brings the hashing worker's trees up to the journal when its cache starts behind. */
import type { HashPort } from '../ports'
import { spentBatches } from '../settlement/spent_batches'
import type { State } from '../state/state'

const LEAVES_PER_CALL = 4096

/** @throws Error when the worker holds other leaves than the journal. */
export async function restoreTrees(state: State, hash: HashPort): Promise<void> {
  const { leaves } = state
  for (let from = hash.root().leaf_count; from < leaves.size; from += LEAVES_PER_CALL) {
    const count = Math.min(LEAVES_PER_CALL, leaves.size - from)
    const batch = Array.from({ length: count }, (_, at) => leaves.at(from + at).slice())
    await hash.appendLeaves(from, batch)
  }
  const missing = [...spentBatches(state, hash.spent().last_batch_id)]
  if (missing.length > 0) await hash.restoreSpent(missing)
}
