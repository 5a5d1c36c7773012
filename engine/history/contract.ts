/** The derived read models (events, orders, fills, withdrawals, reshapes) and the messages between their two threads. */
import type * as wire from '../../protocol/wire/trading'

// What the rest of the engine knows of the derived read models: accounts' events, orders, fills, withdrawals, reshapes.

/** `text` is the event as JSON (event_text.ts). */
export type NewEvent = { account_id: string; event: wire.AccountEvent; text: string }
export type OrderFilter = {
  /** 'open' means accepted or partially_filled. */
  status?: 'open' | wire.OrderStatus | undefined
  symbol?: string | undefined
  after: number
  limit: number
}
export type EventText = { seq: number; text: string }
export type Owned = { account_id: string; text: string }

/**
 * Derived, rebuildable read models. Reads answer at once with everything recorded so far, written or not, and run
 * synchronously, so a reader can read and then follow without a gap. What is read is JSON text of the wire's shapes.
 * Objects handed in must not be changed.
 * Reads throw HistoryBroken when the database is unreadable; the next opening then rebuilds it from the journal.
 */
export interface History {
  /**
   * Takes the events of one journal record, in journal order; call it for records without events too, so that the
   * watermark moves. A journal_seq already recorded is ignored.
   */
  record(journal_seq: number, events: readonly NewEvent[]): void
  /** Journal seq up to which everything is durably contained: replay feeds from the next one. 0 = rebuild from the start. */
  watermark(): number
  /** Events recorded and not yet written; bounded by `backlog_events_max`, beyond which record throws: await flush() before. */
  backlog(): number

  /** Events with seq > after, ascending. */
  events(account_id: string, after: number, limit: number): wire.Page<EventText>
  /** First retained event; seqLast + 1 when none is. */
  seqFirst(account_id: string): number
  /** Last event ever numbered; 0 when none was. */
  seqLast(account_id: string): number
  /** Newest state of the order with its newest fills. */
  order(order_id: string): Owned | undefined
  /**
   * Ordered by the seq of the order's first event (its creation), which never moves while paging; `after` and
   * `next_after` speak of that seq. A filtered page may hold fewer than `limit` and still go on: follow next_after.
   */
  orders(account_id: string, filter: OrderFilter): wire.Page<string>
  /** Newest state of each fill, ordered by the seq of its first event (fill.matched). */
  fills(account_id: string, after: number, limit: number): wire.Page<string>
  withdrawal(withdrawal_id: string): Owned | undefined
  reshape(reshape_id: string): Owned | undefined

  /** Deletes events, final orders with their fills, withdrawals and reshapes older than the retention time. */
  prune(now_unix_ms: number): Promise<void>
  /** How often old rows were deleted: with seqLast it tells whether what was read once still holds. */
  prunes(): number
  /** Resolves when everything recorded so far is durable. */
  flush(): Promise<void>
  close(): Promise<void>
}

export type HistoryOptions = {
  /** Folder of the database; made if absent. */
  dir: string
  /** 32 bytes; contents and names are sealed with keys derived from it, the disk sees neither. */
  key: Uint8Array
  retention_days: number
}

/** The database cannot be read or written; it is rebuilt at the next opening. Never fatal for the venue. */
export class HistoryBroken extends Error {
  override readonly name = 'HistoryBroken'
}

// What the history's two threads say to each other.

/** New events of one account as JSON, one a line, in order; text crosses threads cheaper than objects. */
export type NewLines = { account_id: string; lines: string }

export type Request =
  | { op: 'open'; dir: string; key: Uint8Array }
  | { op: 'write'; accounts: NewLines[]; watermark: number }
  | { op: 'prune'; cutoff_unix_ms: number }
  | { op: 'close' }

export type Reply =
  | { op: 'opened'; watermark: number }
  | { op: 'refused'; message: string }
  /** The oldest unanswered write is durable. */
  | { op: 'written'; watermark: number }
  | { op: 'pruned' }
  | { op: 'failed'; message: string }
  | { op: 'closed' }
