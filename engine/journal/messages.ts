/** What the journal's two threads say to each other. Groups and read chunks are moved, not copied. */
import { JournalDamaged, type JournalFaults } from './contract'

export type OpenRequest = {
  op: 'open'
  dir: string
  key: Uint8Array
  segment_bytes: number
  faults: JournalFaults
}
export type Request =
  | OpenRequest
  | { op: 'append'; group: Uint8Array }
  | { op: 'fence'; epoch: number }
  | { op: 'retire'; before_seq: number }
  | { op: 'read'; reader: number; from_seq: number; head_before: Uint8Array | undefined }
  | { op: 'read_next'; reader: number }
  | { op: 'read_stop'; reader: number }
  | { op: 'close' }

export type Reply =
  | { op: 'opened'; seq: number; head: Uint8Array; epoch: number; first_seq: number }
  | { op: 'refused'; failure: Failure }
  /** The next groups and fences in order of request are durable; 32 bytes of head each. */
  | { op: 'durable'; heads: Uint8Array }
  | { op: 'retired'; first_seq: number }
  | { op: 'chunk'; reader: number; groups: Uint8Array; last: boolean }
  | { op: 'read_failed'; reader: number; failure: Failure }
  | { op: 'failed'; failure: Failure }
  | { op: 'closed' }

/** An error in a form that survives the way between threads. */
export type Failure = {
  name: string
  message: string
  damage?: { seq: number; file: string; offset: number; reason: string }
}

export function toFailure(error: unknown): Failure {
  if (error instanceof JournalDamaged) {
    const { name, message, seq, file, offset, reason } = error
    return { name, message, damage: { seq, file, offset, reason } }
  }
  if (error instanceof Error) return { name: error.name, message: error.message }
  return { name: 'Error', message: 'unknown failure' }
}

export function fromFailure({ name, message, damage }: Failure): Error {
  if (damage !== undefined) return new JournalDamaged(damage.seq, damage.file, damage.offset, damage.reason)
  if (name === 'RangeError') return new RangeError(message)
  return new Error(message)
}
