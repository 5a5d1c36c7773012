/** What an opening proves: the commitment it stands for and the nullifier that will spend it. */
import { equalBytes, toHex } from '../../protocol/bytes'
import { nullifierOf, openingCommitment } from '../../protocol/notes'
import type { NoteFact } from '../commands'
import type { State } from '../state/state'
import type { Opening } from './read_opening'

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
