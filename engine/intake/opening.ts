/** Reads the opening of a note the venue may not know, and derives its commitment and nullifier. */
import { equalBytes, toHex } from '../../protocol/bytes'
import { nullifierOf, openingCommitment } from '../../protocol/notes/notes'
import type { NoteFact } from '../commands'
import type { State } from '../machine/state/state'
import { elementOf, integerOf, keyOf, objectOf, path, u64Of } from './form'

// The opening of a note the venue may not know: mint, amount, blinding and, for deposit-form notes, the leaf index.

export type Opening = {
  mint: Uint8Array
  amount: bigint
  blinding: Uint8Array
  /** Present exactly for notes in deposit form. */
  leaf_index: number | undefined
}

/** Reads `opening`; undefined when the request carries none. Refuses a form fault with its field. */
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

// What an opening proves: the commitment it stands for and the nullifier that will spend it.

/** What of the state tells whether an opening can matter at all. */
export type KnownNotes = Pick<State, 'notes' | 'leaves'>

/**
 * Computes the facts of an opening for the signing key (protocol.md "Notes"). About five Poseidon hashes, a millisecond,
 * so only where the decision can depend on them: not for a note the venue knows, and not for one that no finalized leaf
 * holds, which stays unknown either way.
 */
export function openNote(
  known: KnownNotes,
  wanted: Uint8Array,
  opening: Opening | undefined,
  owner: Uint8Array,
): NoteFact | undefined {
  if (opening === undefined || known.notes.has(toHex(wanted)) || !isLeaf(known, wanted, opening))
    return undefined
  const commitment = openingCommitment({ owner, ...opening })
  return { ...opening, commitment, nullifier: nullifierOf(commitment, opening.blinding) }
}

function isLeaf({ leaves }: KnownNotes, wanted: Uint8Array, { leaf_index }: Opening): boolean {
  if (leaf_index === undefined) return leaves.has(wanted)
  return leaf_index < leaves.size && equalBytes(leaves.at(leaf_index), wanted)
}
