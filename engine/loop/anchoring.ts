/** Puts the journal head on chain when nothing settles, so that an older disk is recognised (settlement.md "Rollback"). */
import type { ChainPort } from '../ports'

/** Time from the first record worth anchoring to the attempt; the promise to the outside is 30 s. */
const ANCHOR_AFTER_MS = 20_000
const RETRY_AFTER_MS = 5_000

export class Anchoring {
  private seq_dirty = 0
  private seq_anchored = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private stopped = false

  constructor(
    private readonly chain: ChainPort,
    private readonly head: () => { seq: number; head: Uint8Array },
  ) {}

  /** A durable record that a client or the book depends on. Bare slots do not count: replay loses nothing by them. */
  dirty(seq: number): void {
    this.seq_dirty = seq
    this.arm(ANCHOR_AFTER_MS)
  }

  isDirty(): boolean {
    return this.seq_dirty > this.seq_anchored
  }

  /** Anchors now unless a settlement has carried everything worth it. Rejects when the chain does not take it. */
  async now(): Promise<void> {
    if (!this.isDirty()) return
    const { journal_seq } = await this.chain.readConfig()
    this.seq_anchored = Math.max(this.seq_anchored, journal_seq)
    if (!this.isDirty()) return
    const { seq, head } = this.head()
    await this.chain.anchor(seq, head)
    this.seq_anchored = Math.max(this.seq_anchored, seq)
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
  }

  private arm(after_ms: number): void {
    if (this.timer !== undefined || this.stopped) return
    this.timer = setTimeout(() => void this.fire(), after_ms)
    this.timer.unref()
  }

  private async fire(): Promise<void> {
    let again_after_ms = ANCHOR_AFTER_MS
    try {
      await this.now()
    } catch {
      // The chain port reports its own health; the head stays dirty and is tried again.
      again_after_ms = RETRY_AFTER_MS
    }
    this.timer = undefined
    if (this.isDirty()) this.arm(again_after_ms)
  }
}
