/** Anchors the journal head on chain while nothing settles, so that a rolled-back disk is detected (settlement.md "Rollback"). */
import type { JournalSeq } from '../../protocol/units'
import { LIMITS } from '../limits'
import type { ChainPort } from '../ports'

export class Anchoring {
  /** Newest dirty record of each time span, oldest first; only records that no confirmed position covers. */
  private marks: { seq: JournalSeq; at_ms: number }[] = []
  private timer: ReturnType<typeof setTimeout> | undefined
  private stopped = false

  constructor(
    private readonly chain: Pick<ChainPort, 'anchor' | 'lease'>,
    private readonly head: () => { seq: JournalSeq; head: Uint8Array },
    private readonly monotonicMs: () => number,
    /** Age of an uncovered record beyond which nothing more is acknowledged. */
    private readonly max_ms: number,
  ) {}

  /** Schedules an anchor for the durable record `seq`, on which a client or the book depends. */
  dirty(seq: JournalSeq): void {
    const at_ms = this.monotonicMs()
    const last = this.marks.at(-1)
    if (last !== undefined && at_ms - last.at_ms < LIMITS.anchor_mark_ms) last.seq = seq
    else this.marks.push({ seq, at_ms })
    this.arm(this.begins_ms)
  }

  /** The own position that a quorum shows on chain; 0 without one. */
  coveredSeq(): JournalSeq {
    return this.chain.lease().covered_seq
  }

  isRestoreAnnounced(): boolean {
    return this.chain.lease().restore_announced
  }

  isDirty(): boolean {
    return this.oldest() !== undefined
  }

  /** No confirmed position covers a record of this age: a restored disk could lose more than is promised. */
  isOverdue(): boolean {
    return this.ageMs() > this.max_ms
  }

  /** Age of the oldest record that no confirmed position covers; 0 without one. */
  ageMs(): number {
    const oldest = this.oldest()
    return oldest === undefined ? 0 : this.monotonicMs() - oldest.at_ms
  }

  /** Anchors now unless a position has covered every dirty record. Rejects when the anchor fails. */
  async now(): Promise<void> {
    if (this.isDirty()) await this.chain.anchor(this.marks.at(-1)!.seq, this.head())
  }

  /**
   * Anchors if no settlement has covered a record for a while. While batches settle they carry the head, and an anchor
   * between them would make the journal position of batches signed ahead regress.
   */
  async due(): Promise<void> {
    this.oldest()
    const seq = this.marks.findLast(({ at_ms }) => this.monotonicMs() - at_ms >= this.begins_ms)?.seq
    if (seq !== undefined) await this.chain.anchor(seq, this.head())
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
  }

  private get begins_ms(): number {
    return this.max_ms * LIMITS.anchor_begins_at
  }

  /** Drops the covered marks. */
  private oldest(): { seq: JournalSeq; at_ms: number } | undefined {
    const covered_seq = this.coveredSeq()
    while (this.marks[0] !== undefined && this.marks[0].seq <= covered_seq) this.marks.shift()
    return this.marks[0]
  }

  private arm(after_ms: number): void {
    if (this.timer !== undefined || this.stopped) return
    this.timer = setTimeout(() => void this.fire(), after_ms)
    this.timer.unref()
  }

  private async fire(): Promise<void> {
    // A failure is reported by the chain port; a landed anchor may show only later.
    await this.due().catch(() => undefined)
    this.timer = undefined
    const oldest = this.oldest()
    if (oldest === undefined) return
    this.arm(Math.max(LIMITS.anchor_retry_ms, oldest.at_ms + this.begins_ms - this.monotonicMs()))
  }
}
