/** Takes and releases the notes that back live commands. */
import type { NoteFound } from './check_note'
import type { Note } from './note'
import type { State } from './state'

/** Registers a note that was just opened, and locks it. */
export function lockNote(state: State, found: NoteFound): Note {
  const { note } = found
  if (found.fresh) state.notes.set(note.commitment!, note)
  note.status = 'in_use'
  return note
}

/** Frees a note unless a batch spends it or its owner takes it out. */
export function releaseNote(note: Note): void {
  if (note.status === 'in_use') note.status = 'free'
}
