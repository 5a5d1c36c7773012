/** The notes that back commands: whether one can, and their lock and release. */
import { equalBytes } from '../../../protocol/bytes'
import type { NoteFact } from '../../commands'
import type { Note } from '../state/note'
import { type RefusedOutcome, refuse } from '../state/outcome'
import type { State } from '../state/state'

// Whether a note can back a command: known or opened, owned, of the right mint, unspent and unused.

/** What an opening shows of a note that is not in the state yet. */
type OpenedNote = {
  owner: string
  mint: number
  amount: bigint
  commitment: Uint8Array
  blinding: Uint8Array
  nullifier: Uint8Array
  leaf_index: number
}
/** Applying the command makes a `fresh` note known. */
export type NoteFound = { ok: true; note: Note; fresh: false } | { ok: true; note: OpenedNote; fresh: true }

type Wanted = {
  commitment: Uint8Array
  opening: NoteFact | undefined
  /** base58 of the signing key. */
  owner: string
  /** Index of the mint it must have; undefined = any configured mint. */
  mint: number | undefined
  /** A note in use that this command itself releases (modify). */
  released?: Note | undefined
}

/**
 * Refuses, in this order, `note_unknown`, `note_not_owned`, `note_wrong_mint`, `note_spent` and `note_in_use`
 * (protocol.md "Order of checks").
 */
export function checkNote(state: State, wanted: Wanted): NoteFound | RefusedOutcome {
  const known = state.notes.find(wanted.commitment)
  if (known === undefined) return checkForgotten(state, wanted) ?? checkOpening(state, wanted)
  if (known.owner !== wanted.owner) return refuse('note_not_owned')
  if (wanted.mint !== undefined && known.mint !== wanted.mint) return refuse('note_wrong_mint')
  if (known.status === 'spent') return refuse('note_spent')
  if (known.status !== 'free' && !known.is(wanted.released)) return refuse('note_in_use')
  return { ok: true, note: known, fresh: false }
}

/** A note that a finalized batch spent is dropped from memory; only who owned it is kept. */
function checkForgotten(state: State, wanted: Wanted): RefusedOutcome | undefined {
  const leaf_index = state.leaves.indexOf(wanted.commitment)
  const owner = leaf_index === undefined ? 0 : (state.spent_owners[leaf_index] ?? 0)
  if (owner === 0) return undefined
  return refuse(state.keys.get(wanted.owner)?.index === owner - 1 ? 'note_spent' : 'note_not_owned')
}

function checkOpening(state: State, wanted: Wanted): NoteFound | RefusedOutcome {
  const { commitment, opening } = wanted
  // The commitment of an opening covers the signing key as owner, so a foreign note never opens.
  if (opening === undefined || !equalBytes(opening.commitment, commitment)) return refuse('note_unknown')
  const leaf_index = leafOf(state, opening)
  if (leaf_index === undefined) return refuse('note_unknown')
  const mint = state.mints.findIndex((one) => equalBytes(one.bytes, opening.mint))
  if (mint === -1 || (wanted.mint !== undefined && mint !== wanted.mint)) return refuse('note_wrong_mint')
  if (state.nullifiers.has(opening.nullifier)) return refuse('note_spent')
  if (state.settlement.exits.has(opening.nullifier.toHex())) return refuse('note_in_use')
  const { amount, blinding, nullifier } = opening
  const note = { owner: wanted.owner, mint, amount, commitment, blinding, nullifier, leaf_index }
  return { ok: true, note, fresh: true }
}

/** Where the opened note stands among the finalized leaves: where it says (deposit form), else anywhere. */
function leafOf(state: State, opening: NoteFact): number | undefined {
  if (opening.leaf_index === undefined) return state.leaves.indexOf(opening.commitment)
  if (opening.leaf_index >= state.leaves.size) return undefined
  return equalBytes(state.leaves.at(opening.leaf_index), opening.commitment) ? opening.leaf_index : undefined
}

// Takes and releases the notes that back live commands.

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
