/** Applies what the chain says was spent before this journal began: the first thing a venue restored from chain learns. */
import type { CommandOf } from '../commands'
import type { Answer } from './outcome'
import type { State } from './state'

/** @throws Error when a batch is not the next one, repeats a nullifier, or comes after this venue packed its own */
export function applySpentRestored(state: State, command: CommandOf<'spent_restored'>): Answer {
  const { settlement } = state
  for (const { batch_id, nullifiers, signature, slot } of command.batches) {
    if (settlement.batches.size > 0 || batch_id !== settlement.last_batch + 1) {
      throw new Error('restored settlement batches come in order and before any other')
    }
    for (const nullifier of nullifiers) {
      if (state.nullifiers.has(nullifier)) throw new Error('a nullifier is spent twice')
      state.nullifiers.append(nullifier)
    }
    state.nullifier_ends.push(state.nullifiers.size)
    settlement.last_batch = batch_id
    settlement.last_hashed = batch_id
    settlement.landed = { batch_id, signature, slot }
  }
  return { kind: 'done' }
}
