/** Declares the read models derived from the journal, and the messages between their two threads. */

import type { ChainPoint, EventSeq, JournalSeq } from '../../protocol/units'
import type * as wire from '../../protocol/wire/trading'
import type { Histogram } from '../memory/histogram'

/** `text` is the event as JSON. */
export type NewEvent = { account_id: string; event: wire.AccountEvent; text: string }
export type OrderFilter = {
  /** 'open' means accepted or partially_filled. */
  status?: 'open' | wire.OrderStatus | undefined
  symbol?: string | undefined
  after: EventSeq
  limit: number
}
export type EventText = { seq: EventSeq; text: string }
/** A resource as JSON text, with the account that owns it. */
export type Owned = { account_id: string; text: string }

/**
 * Read models of events, orders, fills, withdrawals and reshapes, rebuildable from the journal. Reads are synchronous
 * and include everything recorded so far, written or not, so a reader can read and then follow without a gap. They
 * return the wire's shapes as JSON text. Recorded objects must not be changed.
 * Reads throw HistoryBroken when the database is unreadable; the next opening then rebuilds it from the journal.
 */
export interface History {
  /**
   * Records the events of one journal record, in journal order; call it also for records without events, so that the
   * watermark advances. A journal_seq that is already recorded is ignored.
   */
  record(journal_seq: JournalSeq, events: readonly NewEvent[]): void
  /**
   * Ends a journal group: the rows recorded since the last one belong to the journal with this head, and to no other. They are
   * written only then.
   */
  seal(point: ChainPoint): void
  /**
   * Journal seq up to which the history is written: replay records from the next one. 0 = rebuild from the start. The end of
   * the process loses no row, a power loss those written after the last `sync`.
   */
  watermark(): JournalSeq
  /** The point of the journal at the opening's watermark; a journal without it is not the one of this history. */
  readonly opened: ChainPoint
  /** Events recorded and not yet written. Beyond `history_backlog_events_max` the history breaks: await flush() before. */
  backlog(): number
  /** Times from the sending of a batch to its commit. */
  readonly latency: Histogram

  /** Events with seq > after, ascending. */
  events(account_id: string, after: EventSeq, limit: number): wire.Page<EventText>
  /** First retained event; seqLast + 1 when none is retained. */
  seqFirst(account_id: string): EventSeq
  /** Last event of the account, retained or not; 0 before its first event. */
  seqLast(account_id: string): EventSeq
  /** Newest state of the account's newest order of this id, and of its fills. Ids are used again, also by other accounts. */
  order(account_id: string, order_id: string): string | undefined
  /** Whether any account has an order of this id. */
  isOrder(order_id: string): boolean
  /**
   * Ordered by the seq of the order's first event, which is stable while paging; `after` and `next_after` are such
   * seqs. A filtered page may have fewer than `limit` items and still not be the last: follow `next_after`.
   */
  orders(account_id: string, filter: OrderFilter): wire.Page<string>
  /** Newest state of each fill, ordered by the seq of its first event (fill.matched). */
  fills(account_id: string, after: EventSeq, limit: number): wire.Page<string>
  withdrawal(withdrawal_id: string): Owned | undefined
  reshape(reshape_id: string): Owned | undefined

  /** Deletes events, closed orders with their fills, final withdrawals and reshapes older than the retention time. */
  prune(now_unix_ms: number): Promise<void>
  /** Prunes since the opening: a cached read is valid while this and seqLast are unchanged. */
  prunes(): number
  /** The cost of all reads so far, in `READ_UNITS`: reads are synchronous, so a difference is the cost of one caller. */
  units(): number
  /** Reads fail until the next start. */
  isBroken(): boolean
  /** The disk takes no writes; reads go on. */
  isStalled(): boolean
  /** Resolves when everything recorded so far is written. Rejects with HistoryStalled while the disk takes no writes. */
  flush(): Promise<void>
  /** Resolves when everything recorded so far is durable. Rejects like `flush`. */
  sync(): Promise<void>
  close(): Promise<void>
}

export type HistoryOptions = {
  /** Folder of the database, created if absent. */
  dir: string
  /** 32 bytes; contents and names are encrypted on disk under keys derived from it. */
  key: Uint8Array
  retention_days: number
}

/** The database cannot be read or written; the next opening rebuilds it. Not fatal for the venue. */
export class HistoryBroken extends Error {
  override readonly name = 'HistoryBroken'
}

/** The disk takes no writes at present: they are repeated until it does, and reads go on. */
export class HistoryStalled extends Error {
  override readonly name = 'HistoryStalled'
}

// Messages between the two threads.

/** See `EventLog`; accounts and words by their numbers. */
export type LoggedEvents = {
  memory: SharedArrayBuffer
  bytes: number
  words: string[]
  account_ids: string[]
}

export type Request =
  | { op: 'open'; dir: string; key: Uint8Array }
  | { op: 'write'; events: LoggedEvents; point: ChainPoint }
  | { op: 'sync' }
  | { op: 'prune'; cutoff_unix_ms: number }
  | { op: 'close' }

export type Reply =
  | { op: 'opened'; point: ChainPoint }
  | { op: 'refused'; message: string }
  /** The oldest pending write is committed. */
  | { op: 'written'; watermark: number }
  /** A write found no space or an I/O error and is repeated. */
  | { op: 'stalled' }
  | { op: 'synced' }
  | { op: 'pruned' }
  | { op: 'failed'; message: string }
  | { op: 'closed' }
