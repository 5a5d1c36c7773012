/** Lets go of a note whose spending is final; of it stays who owned it, so that using it again is told apart. */
import type { Note } from './note'
import type { State } from './state'

export function retireNote(state: State, note: Note, leaf_index: number): void {
  const owner = state.keys.get(note.owner)
  if (leaf_index >= state.spent_owners.length) {
    const larger = new Uint32Array(Math.max(leaf_index + 1, state.spent_owners.length * 2))
    larger.set(state.spent_owners)
    state.spent_owners = larger
  }
  // A note that only an exit ever spent may belong to a key that never traded here.
  state.spent_owners[leaf_index] = owner === undefined ? 0 : owner.index + 1
  state.notes.forget(note)
}
