/** Applies finalized leaves: deposits below them can be opened, spent notes among them can be let go. */
import { equalBytes } from '../../protocol/bytes'
import type { CommandOf } from '../commands'
import type { Answer } from './outcome'
import { retireNote } from './retire_note'
import type { State } from './state'

/** @throws Error on a gap, or when a finalized leaf changed: then the chain contradicts the journal. */
export function applyLeaves(state: State, command: CommandOf<'leaves'>): Answer {
  const { first_index, leaves } = command
  if (first_index > state.leaves.size) throw new Error('finalized leaves leave a gap')
  leaves.forEach((leaf, at) => {
    const leaf_index = first_index + at
    if (leaf_index < state.leaves.size) {
      if (!equalBytes(state.leaves.at(leaf_index), leaf)) throw new Error('a finalized leaf changed')
      return
    }
    state.leaves.append(leaf)
    const note = state.notes.find(leaf)
    if (note === undefined) return
    state.notes.land(note, leaf_index)
    const retired = note.status === 'spent' && !state.settlement.batches.has(note.spent_in)
    if (retired) retireNote(state, note, leaf_index)
  })
  return { kind: 'done' }
}
