/** The spent nullifiers batch by batch, from which the hashing worker rebuilds the spent tree at boot. */
import type { State } from '../state/state'

/** Hashed batches with an id above `after`, ascending; nullifiers ascending within each. */
export function* spentBatches(
  state: State,
  after = 0,
): Generator<{ batch_id: number; nullifiers: Uint8Array[] }> {
  const { nullifiers, nullifier_ends } = state
  for (let at = after; at < nullifier_ends.length; at++) {
    const batch: Uint8Array[] = []
    for (let place = nullifier_ends[at - 1] ?? 0; place < nullifier_ends[at]!; place++) {
      batch.push(nullifiers.at(place).slice())
    }
    yield { batch_id: at + 1, nullifiers: batch }
  }
}
