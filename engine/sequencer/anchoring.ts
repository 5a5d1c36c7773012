/** Anchors the journal head on chain while nothing settles, so that a rolled-back disk is detected (settlement.md "Rollback"). */
import type { JournalSeq } from '../../protocol/units'
import { LIMITS } from '../limits'
import type { ChainPort } from '../ports'

export class Anchoring {
  private seq_dirty = 0
  private seq_anchored = 0
  /** Newest dirty record of each time span, oldest first; only records that no finalized head covers. */
  private marks: { seq: JournalSeq; at_ms: number }[] = []
  private timer: ReturnType<typeof setTimeout> | undefined
  private stopped = false

  constructor(
    private readonly chain: ChainPort,
    private readonly head: () => { seq: JournalSeq; head: Uint8Array },
    private readonly monotonicMs: () => number,
  ) {}

  /** Schedules an anchor for the durable record `seq`, on which a client or the book depends. */
  dirty(seq: JournalSeq): void {
    this.seq_dirty = seq
    const at_ms = this.monotonicMs()
    const last = this.marks.at(-1)
    if (last !== undefined && at_ms - last.at_ms < LIMITS.anchor_mark_ms) last.seq = seq
    else this.marks.push({ seq, at_ms })
    this.arm(LIMITS.anchor_after_ms)
  }

  isDirty(): boolean {
    return this.seq_dirty > this.seq_anchored
  }

  /** No finalized position covers a record of this age: a restored disk could lose more than is promised. */
  isOverdue(): boolean {
    const [oldest] = this.marks
    return oldest !== undefined && this.monotonicMs() - oldest.at_ms > LIMITS.anchor_overdue_ms
  }

  /** Anchors now unless a settlement has stored a head that covers every dirty record. Rejects when the anchor fails. */
  async now(): Promise<void> {
    if (this.isDirty()) await this.cover(this.seq_dirty)
  }

  /**
   * Anchors if no settlement has covered a record for `LIMITS.anchor_after_ms`. While batches settle they carry the head, and
   * an anchor between them would make the journal position of batches signed ahead regress.
   */
  async due(): Promise<void> {
    const seq = this.marks.findLast(({ at_ms }) => this.monotonicMs() - at_ms >= LIMITS.anchor_after_ms)?.seq
    if (seq !== undefined) await this.cover(seq)
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
  }

  private async cover(seq_due: number): Promise<void> {
    this.seq_anchored = await this.chain.anchor(seq_due, this.head())
    this.marks = this.marks.filter((mark) => mark.seq > this.seq_anchored)
  }

  private arm(after_ms: number): void {
    if (this.timer !== undefined || this.stopped) return
    this.timer = setTimeout(() => void this.fire(), after_ms)
    this.timer.unref()
  }

  private async fire(): Promise<void> {
    let soonest_ms = 0
    try {
      await this.due()
    } catch {
      // The chain port reports its own health; the head stays dirty and is retried.
      soonest_ms = LIMITS.anchor_retry_ms
    }
    this.timer = undefined
    const oldest = this.marks[0]
    if (oldest === undefined) return
    this.arm(Math.max(soonest_ms, oldest.at_ms + LIMITS.anchor_after_ms - this.monotonicMs()))
  }
}
