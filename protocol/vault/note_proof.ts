/** Owns how a note's opening and inclusion path stand in the data of `request_exit` and `escape`. */
import type { LayoutWriter } from './layout'

export const PATH_BYTES = 1_024

/** A note opened in public: only its owner, who signs the transaction, can do so. */
export type NoteOpening = {
  /** `deposit` for notes the program made (deposits and refunds), whose commitment covers the leaf index. */
  form: 'settlement' | 'deposit'
  /** Base units. */
  amount: bigint
  blinding: Uint8Array
  leaf_index: number
}

/** Bytes of an opening: form u8 · amount u64 · blinding (32) · leaf_index u64. */
export const OPENING_BYTES = 49

export function writeOpening(writer: LayoutWriter, opening: NoteOpening): LayoutWriter {
  return writer
    .u8(opening.form === 'deposit' ? 1 : 0)
    .u64(opening.amount)
    .bytes(opening.blinding, 32)
    .u64(opening.leaf_index)
}

/** 32 siblings from the leaf upwards. */
export function writePath(writer: LayoutWriter, siblings: readonly Uint8Array[]): LayoutWriter {
  if (siblings.length !== 32) throw new RangeError('expected 32 siblings')
  for (const sibling of siblings) writer.bytes(sibling, 32)
  return writer
}
