/** Declares the journal's interface, records and errors, and the messages between its two threads. */

import type { ChainPoint, JournalSeq } from '../../protocol/units'
import type { Histogram } from '../memory/histogram'

/** A command or fact to make durable. `type` is 0..65535, `unix_ms` an integer below 2^53. */
export type NewRecord = { type: number; unix_ms: number; body: Uint8Array }
/** A stored record; `body` may be a view into a larger buffer and must not be modified. */
export type JournalRecord = NewRecord & { seq: JournalSeq }
/** Where a group ended, and the receipt signature that it is stored with (64 bytes). */
export type Appended = { seq_last: JournalSeq; head: Uint8Array; signature: Uint8Array }

/** The boot that signs a segment's groups: its statement key, certified for the epoch by the settlement key. */
export type GroupAuthor = { epoch: number; statement_key: Uint8Array; certificate: Uint8Array }
/** `seed` is the statement key's. Secret. */
export type GroupSigner = GroupAuthor & { venue: Uint8Array; seed: Uint8Array }

/** Signed groups that one write makes durable, and the places before and behind them. */
export type SignedFrame = {
  author: GroupAuthor
  groups: readonly Uint8Array[]
  from: ChainPoint
  to: ChainPoint
}

/** Records of whole groups in order, and the point after the last. */
export type RecordBatch = { records: JournalRecord[]; end: ChainPoint }
/** A group as stored; the point is the one after it, and the signature covers it and the root. */
export type StoredGroup = ChainPoint & { root: Uint8Array; signature: Uint8Array; records: JournalRecord[] }
export type SignedGroup = StoredGroup & { author: GroupAuthor }

/**
 * The append-only command log (engine.md "Journal"). One call of `append` writes one group; after a crash a group is
 * stored whole or not at all.
 *
 * Head of a group = SHA-256(previous head ‖ header and records); the head before the first group is 32 zero bytes. A
 * group contains 16 random bytes, so a published head cannot confirm a guess of its orders. Behind each group its
 * receipt signature is stored.
 */
export interface Journal {
  /**
   * Resolves once the group is on disk (fdatasync). Groups appended during a write are written together by the next
   * one, in the order of the calls. After a rejection the journal stays closed, because memory may be ahead of disk.
   * Throws RangeError for an empty or too large group (groupBytesMax in commit_queue.ts), and writes nothing then.
   * @param root 32 bytes: of the receipt tree over the group's commands; zeros without commands
   */
  append(records: readonly NewRecord[], root?: Uint8Array): Promise<Appended>
  /**
   * Writes groups that another instance signed behind this journal's end, as `append` writes own ones. The caller has verified
   * them. Throws RangeError for another place; own groups need `signAs` afterwards.
   */
  adopt(frame: SignedFrame): Promise<Appended>
  /** Signs the groups appended from now on; without a signer append fails. Throws Error while an append is pending. */
  signAs(signer: GroupSigner): void
  /**
   * Every durable record with seq >= from_seq, as of the call, in whole groups. Verifies each group and throws JournalDamaged.
   * The chain head after record from_seq - 1 must equal `head_before` if given, which binds a snapshot to this journal, and
   * the chain must pass `passing`, ascending.
   */
  readBatches(
    from_seq: JournalSeq,
    head_before?: Uint8Array,
    passing?: readonly ChainPoint[],
  ): AsyncIterable<RecordBatch>
  /** Groups that end after `from`, which must be a place in this journal, with the proof of their author. */
  readGroups(from: ChainPoint): AsyncIterable<SignedGroup[]>
  /** Durable end: seq of the last record (0 when empty) and the head after it. */
  head(): { seq: JournalSeq; head: Uint8Array }
  /** First stored seq; head().seq + 1 when no record is stored. */
  firstSeq(): JournalSeq
  /** Groups appended and not yet durable. At `journal_pending_groups_max` append fails: reject commands earlier. */
  pending(): number
  /** Times from `append` to its end, and of the syncs alone. */
  readonly latency: { readonly append: Histogram; readonly sync: Histogram }
  /** Deletes segments whose records are all below `before_seq`; never the last segment. */
  retire(before_seq: JournalSeq): Promise<void>
  /** Waits for pending appends, then releases the folder. */
  close(): Promise<void>
}

export type JournalOptions = {
  /** Folder of the segments, created if absent. One process at a time (JournalLocked). */
  dir: string
  /** 32 bytes; encrypts and authenticates every group. */
  key: Uint8Array
  /** Size of a segment file, a multiple of 512; default 64 MiB. */
  segment_bytes?: number
  /** Runs a `JournalServer`: with the replicated log in a cluster; a test starts one whose disk fails. */
  thread?: () => Worker
}

/** Stored bytes differ from the written ones: the venue must not start. Nothing was modified. */
export class JournalDamaged extends Error {
  override readonly name = 'JournalDamaged'
  constructor(
    /** First record that is not trustworthy. */
    readonly seq: JournalSeq,
    readonly file: string,
    /** Byte offset in `file`. */
    readonly offset: number,
    readonly reason: string,
  ) {
    super(`journal damaged at seq ${seq}: ${reason} (${file}, offset ${offset})`)
  }
}
/** The folder is already open, in this process or another. */
export class JournalLocked extends Error {
  override readonly name = 'JournalLocked'
}
/** A write failed or close() was called; no more appends. `name` is that of the replicated log's verdict where one ended it. */
export class JournalClosed extends Error {
  constructor(
    message: string,
    override readonly name = 'JournalClosed',
  ) {
    super(message)
  }
}

// Messages between the two threads. Groups and read chunks are transferred, not copied. A group to append and its proofs are
// bare buffers: an object around each takes 4 us more of both threads.

export type OpenRequest = {
  op: 'open'
  dir: string
  key: Uint8Array
  segment_bytes: number
}
export type Request =
  | OpenRequest
  | { op: 'append'; group: Uint8Array }
  | { op: 'adopt'; frame: SignedFrame }
  | { op: 'sign_as'; signer: GroupSigner }
  | { op: 'retire'; before_seq: number }
  | { op: 'read'; reader: number; from_seq: number; expected: ChainPoint[] }
  | { op: 'read_next'; reader: number }
  | { op: 'read_stop'; reader: number }
  | { op: 'close' }

/** Whole groups of one segment; `from` is the place before them and their author, undefined without groups. */
export type Chunk = {
  groups: Uint8Array
  last: boolean
  from: { point: ChainPoint; author: GroupAuthor } | undefined
  /** The place after them. */
  end: ChainPoint
}

export type Reply =
  | { op: 'opened'; seq: number; head: Uint8Array; first_seq: number }
  | { op: 'refused'; failure: Failure }
  /** The oldest pending groups are durable, in order of request, by one sync; head and signature each. */
  | { op: 'durable'; proofs: Uint8Array; sync_ms: number }
  | { op: 'retired'; first_seq: number }
  | ({ op: 'chunk'; reader: number } & Chunk)
  | { op: 'read_failed'; reader: number; failure: Failure }
  | { op: 'failed'; failure: Failure }
  | { op: 'closed' }

export const requestOf = (sent: Request | ArrayBuffer): Request =>
  sent instanceof ArrayBuffer ? { op: 'append', group: new Uint8Array(sent) } : sent

/** The proofs of `durable`; its `sync_ms` follows as a float. */
export function replyOf(sent: Reply | ArrayBuffer): Reply {
  if (!(sent instanceof ArrayBuffer)) return sent
  const at = sent.byteLength - 8
  return { op: 'durable', proofs: new Uint8Array(sent, 0, at), sync_ms: new DataView(sent).getFloat64(at) }
}

/** Sends the replies of a journal's thread. */
export const replier =
  (post: (sent: Reply | ArrayBuffer, moved: ArrayBuffer[]) => void) =>
  (reply: Reply, moved: Uint8Array[] = []): void => {
    if (reply.op !== 'durable')
      post(
        reply,
        moved.map(({ buffer }) => buffer as ArrayBuffer),
      )
    else {
      const sent = bareOf(reply)
      post(sent, [sent])
    }
  }

function bareOf({ proofs, sync_ms }: Extract<Reply, { op: 'durable' }>): ArrayBuffer {
  const sent = new ArrayBuffer(proofs.length + 8)
  new Uint8Array(sent).set(proofs)
  new DataView(sent).setFloat64(proofs.length, sync_ms)
  return sent
}

/** An error as plain data: a structured clone drops the class and its fields. */
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
