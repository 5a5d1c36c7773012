/** Checks whether a note can back a command, locks it and releases it. */
import { equalBytes } from '../../../protocol/bytes'
import type { Amount } from '../../../protocol/units'
import type { NoteFact } from '../../commands'
import { keyOf } from '../state/account'
import { type Note, retiredOwner } from '../state/note'
import { type Env, type RefusedOutcome, refuse } from '../state/outcome'
import { indexOf, type Past, rowAt } from '../state/past'
import type { State } from '../state/state'

/** A note that is not in the state yet, from its opening. */
type OpenedNote = {
  owner: Uint8Array
  mint: number
  amount: Amount
  commitment: Uint8Array
  blinding: Uint8Array
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
export function checkNote(state: State, wanted: Wanted, { past }: Env): NoteFound | RefusedOutcome {
  const known = state.notes.find(wanted.commitment)
  if (known === undefined) return checkForgotten(state, wanted, past) ?? checkOpening(state, wanted, past)
  if (!equalBytes(known.owner, wanted.owner)) return refuse('note_unknown')
  if (wanted.mint !== undefined && known.mint !== wanted.mint) return refuse('note_wrong_mint')
  if (known.status === 'spent') return refuse('note_spent')
  if (known.status !== 'free' && !known.is(wanted.released)) return refuse('note_in_use')
  return { ok: true, note: known, fresh: false }
}

/** Of a note spent in a finalized batch, the state keeps only the owner. */
function checkForgotten(state: State, wanted: Wanted, past: Past | undefined): RefusedOutcome | undefined {
  const number = indexOf(state, past, 'retired', wanted.commitment)
  if (number === undefined) return undefined
  const owner = retiredOwner(rowAt(state, past, 'retired', number))
  return refuse(keyOf(state, wanted.owner)?.index === owner ? 'note_spent' : 'note_unknown')
}

function checkOpening(state: State, wanted: Wanted, past: Past | undefined): NoteFound | RefusedOutcome {
  const { commitment, opening } = wanted
  // The commitment covers the owner, which is the signing key, so the note of another key never opens.
  if (opening === undefined || !equalBytes(opening.commitment, commitment)) return refuse('note_unknown')
  if (!isLeaf(state, opening)) return refuse('note_unknown')
  const mint = state.mints.findIndex((one) => equalBytes(one.bytes, opening.mint))
  if (mint === -1 || (wanted.mint !== undefined && mint !== wanted.mint)) return refuse('note_wrong_mint')
  if (indexOf(state, past, 'nullifiers', opening.nullifier) !== undefined) return refuse('note_spent')
  if (state.settlement.exits.has(opening.nullifier.toHex())) return refuse('note_in_use')
  const { amount, blinding, leaf: leaf_index } = opening
  const note = { owner: wanted.owner, mint, amount, commitment, blinding, leaf_index }
  return { ok: true, note, fresh: true }
}

/** Intake has found the leaf; it is compared as long as the state has it. */
function isLeaf({ leaves }: State, { commitment, leaf_index, leaf }: NoteFact): boolean {
  if (leaf >= leaves.size || (leaf_index ?? leaf) !== leaf) return false
  return leaf < leaves.first || equalBytes(leaves.at(leaf), commitment)
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
  const note = state.notes.create({ ...opened, status: 'free', landed: true })
  state.notes.register(note)
  return note
}

/** Unlocks a note unless it is spent or exiting. */
export function releaseNote(note: Note): void {
  if (note.status === 'in_use') note.status = 'free'
}
