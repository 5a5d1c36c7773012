/** Whether a note can back a command: known or opened, owned, of the right mint, unspent and unused. */
import { equalBytes } from '../../protocol/bytes'
import type { NoteFact } from '../commands'
import type { Note } from './note'
import { type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

/** `fresh` notes are not in the state yet; applying the command registers them. */
export type NoteFound = { ok: true; note: Note; fresh: boolean }

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
  const known = state.notes.get(wanted.commitment.toHex())
  if (known === undefined) return checkForgotten(state, wanted) ?? checkOpening(state, wanted)
  if (known.owner !== wanted.owner) return refuse('note_not_owned')
  if (wanted.mint !== undefined && known.mint !== wanted.mint) return refuse('note_wrong_mint')
  if (known.status === 'spent') return refuse('note_spent')
  if (known.status !== 'free' && known !== wanted.released) return refuse('note_in_use')
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
  const nullifier = opening.nullifier.toHex()
  if (state.settlement.exits.has(nullifier)) return refuse('note_in_use')
  const note: Note = {
    owner: wanted.owner,
    mint,
    amount: opening.amount,
    status: 'free',
    commitment: commitment.toHex(),
    blinding: opening.blinding,
    nullifier,
    leaf_index,
    spent_in: 0,
  }
  return { ok: true, note, fresh: true }
}

/** Where the opened note stands among the finalized leaves: where it says (deposit form), else anywhere. */
function leafOf(state: State, opening: NoteFact): number | undefined {
  if (opening.leaf_index === undefined) return state.leaves.indexOf(opening.commitment)
  if (opening.leaf_index >= state.leaves.size) return undefined
  return equalBytes(state.leaves.at(opening.leaf_index), opening.commitment) ? opening.leaf_index : undefined
}
