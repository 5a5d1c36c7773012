/** What an opening proves: the commitment it stands for and the nullifier that will spend it. */
import { nullifierOf, openingCommitment } from '../../protocol/notes'
import type { NoteFact } from '../commands'
import type { Opening } from './read_opening'

/** Computes the facts of an opening for the signing key (protocol.md "Notes"); costs about five Poseidon hashes. */
export function openNote(opening: Opening | undefined, owner: Uint8Array): NoteFact | undefined {
  if (opening === undefined) return undefined
  const commitment = openingCommitment({ owner, ...opening })
  return { ...opening, commitment, nullifier: nullifierOf(commitment, opening.blinding) }
}
