/** Batches recorded events and sends the batches to the worker in order, a few at a time. */

import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import { Histogram } from '../memory/histogram'
import type { LoggedEvents, NewEvent } from './contract'
import { type Layer, Overlay } from './overlay'

/** A batch is a layer of the overlay until it is written. */
type Batch = { layer: Layer; records: number; point: ChainPoint | undefined; sent_ms: number }

export class WriteBehind {
  readonly overlay = new Overlay()
  /** Times from the sending of a batch to its commit. */
  readonly latency = new Histogram()
  /** Oldest first; the worker has the first `in_flight`, the last is still being filled. */
  private readonly batches: Batch[] = [newBatch(this.overlay)]
  private in_flight = 0
  private recorded: number
  private unwritten = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private flushing: { until: number; resolve: () => void; reject: (error: Error) => void }[] = []

  constructor(
    watermark: number,
    private readonly send: (events: LoggedEvents, point: ChainPoint) => void,
  ) {
    this.recorded = watermark
  }

  get backlog(): number {
    return this.unwritten
  }

  /** False if the record is already recorded. */
  record(journal_seq: number, events: readonly NewEvent[]): boolean {
    if (journal_seq <= this.recorded) return false
    const batch = this.batches.at(-1) as Batch
    for (const event of events) batch.layer.add(event)
    batch.records++
    this.recorded = journal_seq
    this.unwritten += events.length
    return true
  }

  /** Ends a journal group: a batch ends with one, so that the database always belongs to a point of the journal. */
  seal(point: ChainPoint): void {
    const batch = this.batches.at(-1) as Batch
    if (batch.records === 0) return
    batch.point = point
    if (
      batch.layer.size >= LIMITS.history_batch_events_max ||
      batch.records >= LIMITS.history_batch_records_max
    )
      this.complete()
    else if (batch.layer.size > 0) this.timer ??= setTimeout(() => this.due(), LIMITS.history_batch_delay_ms)
  }

  /**
   * The filling batch is sent, or fills on until the worker takes another one: each batch keeps memory, so a worker that writes
   * nothing must not make more of them than the events need.
   */
  private due(): void {
    clearTimeout(this.timer)
    this.timer = undefined
    if (this.in_flight < LIMITS.history_batches_in_flight_max) this.complete()
  }

  /** Closes the filling batch and sends as many as the in-flight limit allows. */
  private complete(): void {
    clearTimeout(this.timer)
    this.timer = undefined
    const batch = this.batches.at(-1) as Batch
    if (batch.point !== undefined) {
      this.overlay.begin()
      this.batches.push(newBatch(this.overlay))
    }
    this.hand()
  }

  private hand(): void {
    while (
      this.in_flight < LIMITS.history_batches_in_flight_max &&
      this.in_flight < this.batches.length - 1
    ) {
      const batch = this.batches[this.in_flight] as Batch
      this.in_flight++
      batch.sent_ms = performance.now()
      this.send(batch.layer.events(), batch.point as ChainPoint)
    }
  }

  /** Drops the oldest batch after it became durable. */
  written(): void {
    const batch = this.batches.shift() as Batch
    this.latency.observe(performance.now() - batch.sent_ms)
    this.in_flight--
    this.unwritten -= batch.layer.size
    this.overlay.dropOldest()
    this.hand()
    while (this.flushing[0] !== undefined && this.flushing[0].until <= batch.point!.seq)
      this.flushing.shift()?.resolve()
    const was_due = this.timer === undefined && this.overlay.filling.size > 0
    if (was_due || this.flushing.length > 0) this.due()
  }

  flush(): Promise<void> {
    this.due()
    if (this.batches.length === 1) return Promise.resolve()
    return new Promise((resolve, reject) => this.flushing.push({ until: this.recorded, resolve, reject }))
  }

  /** Rejects pending flushes: nothing more is written. */
  abandon(error: Error): void {
    clearTimeout(this.timer)
    this.rejectFlushes(error)
  }

  rejectFlushes(error: Error): void {
    for (const { reject } of this.flushing.splice(0)) reject(error)
  }
}

function newBatch(overlay: Overlay): Batch {
  return { layer: overlay.filling, records: 0, point: undefined, sent_ms: 0 }
}
