/** What the history's two threads say to each other. */

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
