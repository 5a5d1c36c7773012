/** The journal's interface, its records, its failures, and the messages between its two threads. */

// What the rest of the engine knows of the journal: its interface, its records and the three ways it refuses.

/** A command or fact to make durable. `type` is 0..65535, `unix_ms` an integer below 2^53. */
export type NewRecord = { type: number; unix_ms: number; body: Uint8Array }
/** A record as it stands in the journal; `body` may be a view into a larger buffer and must not be changed. */
export type JournalRecord = NewRecord & { seq: number }
/** Where a group ended: seq of its last record and the chain head after it (32 bytes). */
export type Appended = { seq_last: number; head: Uint8Array }

/**
 * The append-only command log (engine.md "Journal"). One call of `append` is one group: wholly durable or wholly absent.
 *
 * Head of a group = SHA-256(previous head ‖ group bytes); the head before the first group is 32 zero bytes. Group bytes
 * begin with 16 random bytes, so a head that is published confirms no guess of what was ordered.
 */
export interface Journal {
  /**
   * Resolves once the group is on disk (fdatasync). Groups appended while a write is under way are written together
   * by the next one, in the order of the calls. After any rejection the journal is closed for ever: memory may be
   * ahead of disk. Throws RangeError for an empty group or one beyond `group_bytes_max`, which writes nothing.
   */
  append(records: readonly NewRecord[]): Promise<Appended>
  /**
   * Every durable record with seq >= from_seq, as of the call. Checks all it passes: throws JournalDamaged. With
   * `head_before` the chain head after record from_seq - 1 must equal it (ties a snapshot to this very journal).
   */
  read(from_seq: number, head_before?: Uint8Array): AsyncIterable<JournalRecord>
  /** The same in arrays, for replay without an await per record. */
  readBatches(from_seq: number, head_before?: Uint8Array): AsyncIterable<JournalRecord[]>
  /** Durable end: seq of the last record (0 when empty) and the head after it. */
  head(): { seq: number; head: Uint8Array }
  /** First seq that is still stored; head().seq + 1 when none is. */
  firstSeq(): number
  /** Highest epoch fenced so far, 0 for none. */
  epoch(): number
  /** Groups handed in and not yet durable; beyond `pending_groups_max` append fails, so refuse commands before. */
  pending(): number
  /** Durably states that `epoch` writes from here on. Throws RangeError for a lower epoch than the one standing. */
  fence(epoch: number): Promise<void>
  /** Deletes whole segments that hold only records below `before_seq`; the last segment always stays. */
  retire(before_seq: number): Promise<void>
  /** Waits for what was appended, then frees the folder. */
  close(): Promise<void>
}

export type JournalOptions = {
  /** Folder of the segments; made if absent. One process at a time (JournalLocked). */
  dir: string
  /** 32 bytes; encrypts and authenticates every group. */
  key: Uint8Array
  /** Size of a segment file, a multiple of 512; default 64 MiB. */
  segment_bytes?: number
  /** Write faults, for tests of what follows them. */
  faults?: JournalFaults
}
/** Counted from the opening of the journal, 1 = the first. */
export type JournalFaults = {
  /** This write of a group fails as a full disk does (ENOSPC), after half of it is written. */
  write_fails_at?: number
  /** This fdatasync of a group fails (EIO). */
  sync_fails_at?: number
}

/** The journal does not hold what was written: refuse to start. Nothing was modified. */
export class JournalDamaged extends Error {
  override readonly name = 'JournalDamaged'
  constructor(
    /** First record that cannot be trusted. */
    readonly seq: number,
    readonly file: string,
    /** Byte offset in `file`. */
    readonly offset: number,
    readonly reason: string,
  ) {
    super(`journal damaged at seq ${seq}: ${reason} (${file}, offset ${offset})`)
  }
}
/** Another process, or another part of this one, has the folder open. */
export class JournalLocked extends Error {
  override readonly name = 'JournalLocked'
}
/** A write failed or close() was called; nothing can be appended any more. */
export class JournalClosed extends Error {
  override readonly name = 'JournalClosed'
}

// What the journal's two threads say to each other. Groups and read chunks are moved, not copied.

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
type Failure = {
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
