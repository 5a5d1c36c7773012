/** Opening a note in public, and its paths, as the judge checks them. */

import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../../protocol/notes/notes'
import { rootFromPath } from '../../../kit/root_from_path'
import { must, mustBeElement } from './call'
import type { Fields } from './fields'

type Opening = { form: number; amount: bigint; blinding: Uint8Array; leaf_index: bigint }

export function readOpening(fields: Fields): Opening {
  const opening = {
    form: fields.u8(),
    amount: fields.u64(),
    blinding: fields.word(),
    leaf_index: fields.u64(),
  }
  must(opening.form <= 1, 'a form of note that is none')
  mustBeElement(opening.blinding)
  return opening
}

/** The note of an owner. */
export function openNote(
  { form, amount, blinding, leaf_index }: Opening,
  mint: Uint8Array,
  owner: Uint8Array,
): { commitment: Uint8Array; nullifier: Uint8Array } {
  const note = { mint, amount, inner: noteInner(owner, blinding) }
  const commitment =
    form === 1 ? depositCommitment({ ...note, leaf_index: Number(leaf_index) }) : settlementCommitment(note)
  return { commitment, nullifier: nullifierOf(commitment, blinding) }
}

export function rootOf(leaf: Uint8Array, index: bigint, path: readonly Uint8Array[]): Uint8Array {
  must(index < 1n << 40n, 'a leaf index out of range')
  return rootFromPath(leaf, Number(index), path)
}
