/** Takes and releases the notes that back live commands. */
import type { NoteFound, OpenedNote } from './check_note'
import type { Note } from './note'
import type { State } from './state'

/** Makes a note known that was just opened, and locks it. The key of its owner is bound. */
export function lockNote(state: State, found: NoteFound): Note {
  const note = found.fresh ? openedNote(state, found.note) : found.note
  note.status = 'in_use'
  return note
}

function openedNote(state: State, opened: OpenedNote): Note {
  const known = state.notes.find(opened.commitment)
  if (known !== undefined) return known
  const note = state.notes.create({ ...opened, status: 'free' })
  state.notes.register(note)
  return note
}

/** Frees a note unless a batch spends it or its owner takes it out. */
export function releaseNote(note: Note): void {
  if (note.status === 'in_use') note.status = 'free'
}
