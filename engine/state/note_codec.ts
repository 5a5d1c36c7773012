/** The layout of a note in a snapshot. Millions are written and read, so it is said in code instead of a description. */
import type { ByteReader, ByteWriter } from './byte_stream'
import { CodecError } from './byte_stream'
import { NOTE_STATUSES, type Note, type NoteFacts } from './note'

export function writeNote(to: ByteWriter, note: Note): void {
  to.text(note.owner)
  to.uint(note.mint)
  to.u64(note.amount)
  to.byte(NOTE_STATUSES.indexOf(note.status))
  for (const part of [note.commitment_bytes, note.blinding, note.nullifier_bytes]) {
    to.byte(part === undefined ? 0 : 1)
    if (part !== undefined) to.fixed(part, 32)
  }
  const { leaf_index } = note
  to.byte(leaf_index === undefined ? 0 : 1)
  if (leaf_index !== undefined) to.uint(leaf_index)
  to.uint(note.spent_in)
}

export function readNote(from: ByteReader): NoteFacts {
  return {
    owner: from.text(),
    mint: from.uint(),
    amount: from.u64(),
    status: statusOf(from.byte()),
    commitment: from.byte() === 1 ? from.fixed(32) : undefined,
    blinding: from.byte() === 1 ? from.fixed(32) : undefined,
    nullifier: from.byte() === 1 ? from.fixed(32) : undefined,
    leaf_index: from.byte() === 1 ? from.uint() : undefined,
    spent_in: from.uint(),
  }
}

function statusOf(place: number): NoteFacts['status'] {
  const status = NOTE_STATUSES[place]
  if (status === undefined) throw new CodecError('the status of a note is not known')
  return status
}
