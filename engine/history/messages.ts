/** What the history's two threads say to each other. */

export type Request =
  | { op: 'open'; dir: string; key: Uint8Array }
  /** `json` is an array of [account_id, event], in order; text crosses threads cheaper than objects. */
  | { op: 'write'; json: string; watermark: number }
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
