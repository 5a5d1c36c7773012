/** Parses the opening of a note and derives the note's commitment and nullifier from it. */
import { equalBytes } from '../../protocol/bytes'
import { nullifierOf, openingCommitment } from '../../protocol/notes/notes'
import type { NoteFact } from '../commands'
import type { State } from '../machine/state/state'
import { elementOf, integerOf, keyOf, objectOf, path, u64Of } from './form'

/** The secrets of a note that the venue may not know yet. */
export type Opening = {
  mint: Uint8Array
  amount: bigint
  blinding: Uint8Array
  /** Present exactly for notes in deposit form. */
  leaf_index: number | undefined
}

/** The parts of the state that decide whether an opening can matter. */
export type KnownNotes = Pick<State, 'notes' | 'leaves'>

/** Undefined when the request carries no opening. Refuses form errors. */
export function readOpening(value: unknown, at: string): Opening | undefined {
  if (value === undefined) return undefined
  const body = objectOf(value, at, ['mint', 'amount', 'blinding'], ['leaf_index'])
  return {
    mint: keyOf(body['mint'], path(at, 'mint')),
    amount: u64Of(body['amount'], path(at, 'amount')),
    blinding: elementOf(body['blinding'], path(at, 'blinding')),
    leaf_index:
      body['leaf_index'] === undefined ? undefined : integerOf(body['leaf_index'], path(at, 'leaf_index')),
  }
}

/**
 * The facts of an opening for the signing key (protocol.md "Notes"). Costs about five Poseidon hashes, a millisecond, so
 * it skips notes that the venue knows and notes without a finalized leaf, which stay unknown either way.
 * @param wanted commitment that the signed body names
 */
export function openNote(
  known: KnownNotes,
  wanted: Uint8Array,
  opening: Opening | undefined,
  owner: Uint8Array,
): NoteFact | undefined {
  if (opening === undefined || known.notes.has(wanted) || !isLeaf(known, wanted, opening)) return undefined
  const commitment = openingCommitment({ owner, ...opening })
  return { ...opening, commitment, nullifier: nullifierOf(commitment, opening.blinding) }
}

function isLeaf({ leaves }: KnownNotes, wanted: Uint8Array, { leaf_index }: Opening): boolean {
  if (leaf_index === undefined) return leaves.has(wanted)
  return leaf_index < leaves.size && equalBytes(leaves.at(leaf_index), wanted)
}
