/** The layout of a note in a snapshot. Millions are written and read, so it is said in code instead of a description. */
import { type ByteReader, type ByteWriter, CodecError } from './byte_stream'
import { NOTE_STATUSES, type Note, type NoteStatus } from './note'
import * as row from './note_row'
import type { Notes } from './notes'

/** Blinding and nullifier: 32 bytes each at these places of the row, where the flag says so. */
const PARTS = [
  [row.BLINDING_AT, row.HAS_BLINDING],
  [row.NULLIFIER_AT, row.HAS_NULLIFIER],
] as const

export function writeNote(to: ByteWriter, note: Note): void {
  const { bytes } = note.chunk
  const flags = bytes[note.at(row.FLAGS_AT)]!
  to.text(note.owner)
  to.uint(note.mint)
  to.u64(note.amount)
  to.byte(NOTE_STATUSES.indexOf(note.status))
  note.encodeCommitment(to)
  for (const [at, flag] of PARTS) {
    const has = (flags & flag) !== 0
    to.byte(has ? 1 : 0)
    if (has) to.copy(bytes, note.at(at), 32)
  }
  const { leaf_index } = note
  to.byte(leaf_index === undefined ? 0 : 1)
  if (leaf_index !== undefined) to.uint(leaf_index)
  to.uint(note.spent_in)
}

/**
 * Makes the note, not known yet. Its commitment goes to `at` of `commitments` and is put where it belongs once the leaves
 * are read too (`Notes.settle`): until then nobody may ask for it.
 */
export function readNote(from: ByteReader, notes: Notes, commitments: Uint8Array, at: number): Note {
  const note = notes.create({
    owner: from.text(),
    mint: from.uint(),
    amount: from.u64(),
    status: statusOf(from.byte()),
  })
  const { bytes, view } = note.chunk
  const flags_at = note.at(row.FLAGS_AT)
  if (from.byte() === 1) {
    from.copy(commitments, at, 32)
    bytes[flags_at]! |= row.HAS_COMMITMENT
  }
  for (const [part_at, flag] of PARTS) {
    if (from.byte() !== 1) continue
    from.copy(bytes, note.at(part_at), 32)
    bytes[flags_at]! |= flag
  }
  if (from.byte() === 1) {
    view.setUint32(note.at(row.COMMITMENT_AT), from.uint(), true)
    bytes[flags_at]! |= row.HAS_LEAF_INDEX
  }
  note.spent_in = from.uint()
  return note
}

function statusOf(place: number): NoteStatus {
  const status = NOTE_STATUSES[place]
  if (status === undefined) throw new CodecError('the status of a note is not known')
  return status
}
