/** Checks whether a note can back a command, locks it and releases it. */
import { equalBytes } from '../../../protocol/bytes'
import type { Amount } from '../../../protocol/units'
import type { NoteFact } from '../../commands'
import { keyOf } from '../state/account'
import type { Note } from '../state/note'
import { type RefusedOutcome, refuse } from '../state/outcome'
import type { State } from '../state/state'

/** A note that is not in the state yet, from its opening. */
type OpenedNote = {
  owner: Uint8Array
  mint: number
  amount: Amount
  commitment: Uint8Array
  blinding: Uint8Array
  nullifier: Uint8Array
  leaf_index: number
}
/** A `fresh` note is registered when the command is applied. */
export type NoteFound = { ok: true; note: Note; fresh: false } | { ok: true; note: OpenedNote; fresh: true }

type Wanted = {
  commitment: Uint8Array
  opening: NoteFact | undefined
  /** The signing key. */
  owner: Uint8Array
  /** Index of the required mint; undefined = any configured mint. */
  mint: number | undefined
  /** A note in use that this command releases (modify). */
  released?: Note | undefined
}

/**
 * Refuses, in this order, `note_unknown`, `note_wrong_mint`, `note_spent` and `note_in_use` (protocol.md "Order of
 * checks"). A note of another key is unknown, whether or not the venue knows it.
 */
export function checkNote(state: State, wanted: Wanted): NoteFound | RefusedOutcome {
  const known = state.notes.find(wanted.commitment)
  if (known === undefined) return checkForgotten(state, wanted) ?? checkOpening(state, wanted)
  if (!equalBytes(known.owner, wanted.owner)) return refuse('note_unknown')
  if (wanted.mint !== undefined && known.mint !== wanted.mint) return refuse('note_wrong_mint')
  if (known.status === 'spent') return refuse('note_spent')
  if (known.status !== 'free' && !known.is(wanted.released)) return refuse('note_in_use')
  return { ok: true, note: known, fresh: false }
}

/** Of a note spent in a finalized batch, the state keeps only the owner. */
function checkForgotten(state: State, wanted: Wanted): RefusedOutcome | undefined {
  const leaf_index = state.leaves.indexOf(wanted.commitment)
  const owner = leaf_index === undefined ? 0 : (state.spent_owners[leaf_index] ?? 0)
  if (owner === 0) return undefined
  return refuse(keyOf(state, wanted.owner)?.index === owner - 1 ? 'note_spent' : 'note_unknown')
}

function checkOpening(state: State, wanted: Wanted): NoteFound | RefusedOutcome {
  const { commitment, opening } = wanted
  // The commitment covers the owner, which is the signing key, so the note of another key never opens.
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

/** The finalized leaf of an opened note: at the cited index (deposit form), or at any index if none is cited. */
function leafOf(state: State, opening: NoteFact): number | undefined {
  if (opening.leaf_index === undefined) return state.leaves.indexOf(opening.commitment)
  if (opening.leaf_index >= state.leaves.size) return undefined
  return equalBytes(state.leaves.at(opening.leaf_index), opening.commitment) ? opening.leaf_index : undefined
}

/** Locks a note; registers it first if it is fresh. The key of its owner must be bound. */
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

/** Unlocks a note unless it is spent or exiting. */
export function releaseNote(note: Note): void {
  if (note.status === 'in_use') note.status = 'free'
}
