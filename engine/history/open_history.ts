/** Opens the history: starts its worker and implements its interface over the worker and the database. */

import type { ChainPoint } from '../../protocol/units'
import type * as wire from '../../protocol/wire/trading'
import { LIMITS, MS_PER_DAY } from '../limits'
import type { Histogram } from '../memory/histogram'
import {
  type EventText,
  type History,
  HistoryBroken,
  type HistoryOptions,
  HistoryStalled,
  type NewEvent,
  type OrderFilter,
  type Owned,
  type Reply,
  type Request,
} from './contract'
import { markBroken, openReadable } from './database'
import { MergedReads } from './merged_reads'
import { Store } from './store'
import { WriteBehind } from './write_behind'

/**
 * A database that is missing, of another key or unusable is replaced by an empty one, whose watermark is 0. The caller
 * compares `opened` with the journal.
 * @throws Error when the folder cannot be written; RangeError for an invalid option
 */
export async function openHistory(options: HistoryOptions): Promise<History> {
  const { dir, key, retention_days } = options
  if (key.length !== 32) throw new RangeError('the history key has 32 bytes')
  if (!(retention_days > 0)) throw new RangeError('retention_days is positive')
  const worker = new Worker(new URL('./history_worker.ts', import.meta.url))
  try {
    const opened = await new Promise<ChainPoint>((resolve, reject) => {
      worker.onerror = ({ message }) => reject(new Error(`the history worker failed: ${message}`))
      worker.onmessage = ({ data }: MessageEvent<Reply>) => {
        if (data.op === 'opened') resolve(data.point)
        else if (data.op === 'refused') reject(new Error(data.message))
      }
      worker.postMessage({ op: 'open', dir, key } satisfies Request)
    })
    return new WorkerHistory(worker, options, opened)
  } catch (error) {
    worker.terminate()
    throw error
  }
}

class WorkerHistory implements History {
  private readonly worker: Worker
  private readonly dir: string
  private readonly retention_ms: number
  private readonly store: Store
  private readonly writes: WriteBehind
  private readonly reads: MergedReads
  /** Newest seq of each account recorded or read since the opening; bounded by `accounts_max`. */
  private readonly seqs = new Map<string, number>()
  private prune_count = 0
  private written: number
  private broken: HistoryBroken | undefined
  private stalled = false
  private closed = false
  /** Of the thread, oldest first. */
  private readonly awaited: Record<'pruned' | 'synced', PromiseWithResolvers<void>[]> = {
    pruned: [],
    synced: [],
  }
  private on_closed: (() => void) | undefined

  constructor(
    worker: Worker,
    { dir, key, retention_days }: HistoryOptions,
    readonly opened: ChainPoint,
  ) {
    this.worker = worker
    this.dir = dir
    this.retention_ms = retention_days * MS_PER_DAY
    this.written = opened.seq
    this.store = new Store(openReadable(dir), key)
    this.writes = new WriteBehind(opened.seq, (events, point) => this.post({ op: 'write', events, point }))
    this.reads = new MergedReads(this.store, this.writes.overlay)
    worker.onmessage = ({ data }: MessageEvent<Reply>) => this.receive(data)
    worker.onerror = ({ message }) => this.break(`the history worker failed: ${message}`)
  }

  record(journal_seq: number, events: readonly NewEvent[]): void {
    if (this.broken !== undefined || this.closed) return
    if (this.writes.backlog + events.length > LIMITS.history_backlog_events_max) {
      this.break('the history is too far behind', true)
      return
    }
    if (!this.writes.record(journal_seq, events)) return
    for (const { account_id, event } of events) this.seqs.set(account_id, event.seq)
  }
  seal(point: ChainPoint): void {
    if (this.broken === undefined && !this.closed) this.writes.seal(point)
  }
  get latency(): Histogram {
    return this.writes.latency
  }
  watermark = (): number => (this.broken === undefined ? this.written : 0)
  backlog = (): number => (this.broken === undefined ? this.writes.backlog : 0)

  isBroken = (): boolean => this.broken !== undefined || this.closed
  isStalled = (): boolean => this.stalled

  prunes = (): number => this.prune_count
  units = (): number => this.reads.units
  events = (account_id: string, after: number, limit: number): wire.Page<EventText> =>
    this.read((reads) => reads.events(account_id, after, limit))
  seqFirst = (account_id: string): number => this.read((reads) => reads.seqFirst(account_id))
  seqLast(account_id: string): number {
    this.check()
    let seq = this.seqs.get(account_id)
    if (seq === undefined) {
      seq = this.read((reads) => reads.seqLast(account_id))
      if (seq > 0) this.seqs.set(account_id, seq)
    }
    return seq
  }
  order = (account_id: string, order_id: string): string | undefined =>
    this.read((reads) => reads.order(account_id, order_id))
  isOrder = (order_id: string): boolean => this.read((reads) => reads.isOrder(order_id))
  orders = (account_id: string, filter: OrderFilter): wire.Page<string> =>
    this.read((reads) => reads.orders(account_id, filter))
  fills = (account_id: string, after: number, limit: number): wire.Page<string> =>
    this.read((reads) => reads.fills(account_id, after, limit))
  withdrawal = (id: string): Owned | undefined => this.read((reads) => reads.payment('withdrawal', id))
  reshape = (id: string): Owned | undefined => this.read((reads) => reads.payment('reshape', id))

  async prune(now_unix_ms: number): Promise<void> {
    // Unwritten events may be old too, because a replay records events of any age.
    await this.flush()
    this.post({ op: 'prune', cutoff_unix_ms: now_unix_ms - this.retention_ms })
    await this.reply('pruned')
  }

  async sync(): Promise<void> {
    await this.flush()
    this.post({ op: 'sync' })
    await this.reply('synced')
  }

  async flush(): Promise<void> {
    this.check()
    if (this.stalled) throw new HistoryStalled('the disk takes no writes of the history')
    await this.writes.flush()
  }

  async close(): Promise<void> {
    if (this.closed) return
    // A history that breaks during the flush is rebuilt at the next opening, so closing still succeeds.
    if (this.broken === undefined) await this.flush().catch(() => undefined)
    this.closed = true
    // A stalled worker would end its writes first: the next boot records their events again.
    if (this.broken === undefined && !this.stalled) {
      await new Promise<void>((resolve) => {
        this.on_closed = resolve
        this.post({ op: 'close' })
      })
    }
    this.worker.terminate()
    this.store.close()
  }

  private read<T>(read: (reads: MergedReads) => T): T {
    this.check()
    try {
      return this.store.consistently(() => read(this.reads))
    } catch {
      throw this.break('the history database is unreadable')
    }
  }

  private check(): void {
    if (this.broken !== undefined) throw this.broken
    if (this.closed) throw new HistoryBroken('the history is closed')
  }

  private receive(reply: Reply): void {
    if (reply.op === 'written') {
      this.written = reply.watermark
      this.stalled = false
      this.writes.written()
    } else if (reply.op === 'stalled') {
      this.stalled = true
      this.writes.rejectFlushes(new HistoryStalled('the disk takes no writes of the history'))
      this.on_closed?.()
    } else if (reply.op === 'pruned' || reply.op === 'synced') {
      if (reply.op === 'pruned') this.prune_count++
      this.awaited[reply.op].shift()?.resolve()
    } else if (reply.op === 'failed') this.break(reply.message)
    else if (reply.op === 'closed') this.on_closed?.()
  }

  /**
   * From here on reads throw and records are dropped; the mark makes the next opening rebuild the database, unless it is
   * intact.
   */
  private break(message: string, is_intact = false): HistoryBroken {
    if (this.broken !== undefined) return this.broken
    this.broken = new HistoryBroken(message)
    this.writes.abandon(this.broken)
    for (const { reject } of [...this.awaited.pruned.splice(0), ...this.awaited.synced.splice(0)])
      reject(this.broken)
    this.on_closed?.()
    if (is_intact) return this.broken
    try {
      markBroken(this.dir)
    } catch {
      // If the folder is not writable, the journal fails too, which stops the venue.
    }
    return this.broken
  }

  private reply(op: 'pruned' | 'synced'): Promise<void> {
    const awaited = Promise.withResolvers<void>()
    this.awaited[op].push(awaited)
    return awaited.promise
  }

  private post(request: Request): void {
    this.worker.postMessage(request)
  }
}
