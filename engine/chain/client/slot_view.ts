/** Tracks the confirmed slot and the slot time; the slot is monotone and needs two endpoints to agree if there are several. */
import { LIMITS } from '../../limits'
import type { ChainHealth } from './health'
import type { RpcPool } from './rpc_pool'

type SlotViewOptions = {
  monotonicMs: () => number
  /** Initial estimate of the slot time, until enough slots were measured. */
  slot_ms: number
  /** Without a new slot for this long the chain counts as stalled. */
  stall_ms: number
}

export class SlotView {
  /** Newest slot reported by each endpoint: slots never decrease, so an old answer remains a valid lower bound. */
  private readonly reported: number[]
  private readonly samples: { at_ms: number; slot: number }[] = []
  private readonly listeners = new Set<(slot: number) => void>()
  private slot = 0
  private advanced_ms: number

  constructor(
    readonly rpc: RpcPool,
    readonly health: ChainHealth,
    readonly options: SlotViewOptions,
  ) {
    this.reported = rpc.endpoints.map(() => 0)
    this.advanced_ms = options.monotonicMs()
  }

  /** Polls every endpoint until the pool closes; resolves then. */
  async run(): Promise<void> {
    await Promise.all(this.rpc.endpoints.map((_, index) => this.poll(index)))
  }

  now(): { slot: number; lag_ms: number; slot_ms: number } {
    const lag_ms = this.options.monotonicMs() - this.advanced_ms
    return { slot: this.slot, lag_ms, slot_ms: this.slotMs() }
  }

  /** A slot claimed by one node, capped at the view: a false claim must not make all other nodes look behind. */
  reached(slot: number): number {
    return Math.min(slot, this.slot)
  }

  slotMs(): number {
    const [first, last] = [this.samples[0], this.samples.at(-1)]
    if (this.samples.length < LIMITS.slot_samples_min || !first || !last) return this.options.slot_ms
    return (last.at_ms - first.at_ms) / (last.slot - first.slot)
  }

  isStalled(): boolean {
    return this.now().lag_ms > this.options.stall_ms
  }

  /** Calls `listener` on every advance. @returns a function that removes the listener */
  onSlot(listener: (slot: number) => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /** Resolves when the view is past `slot`, and after one slot time at the latest. */
  async after(slot: number): Promise<void> {
    if (this.slot > slot) return
    const advanced = Promise.withResolvers<void>()
    const stop = this.onSlot(() => advanced.resolve())
    await Promise.race([advanced.promise, this.rpc.sleep(this.slotMs())])
    stop()
  }

  private async poll(index: number): Promise<void> {
    const endpoint = this.rpc.endpoints[index]!
    for (let failures = 0; !this.rpc.closed; ) {
      try {
        const slot = await endpoint
          .getSlot({ commitment: 'confirmed' })
          .send({ abortSignal: this.rpc.signal() })
        failures = 0
        this.report(index, Number(slot))
      } catch {
        failures += 1
      }
      this.health.set('slot_stalled', this.isStalled())
      const pause_ms = Math.min(LIMITS.slot_poll_max_ms, Math.max(LIMITS.slot_poll_min_ms, this.slotMs() / 3))
      await this.rpc.sleep(Math.min(LIMITS.rpc_backoff_max_ms, pause_ms * 2 ** Math.min(failures, 5)))
    }
  }

  /** With several endpoints the second-highest slot counts, so that a single endpoint cannot expire the book. */
  private report(index: number, slot: number): void {
    this.reported[index] = Math.max(this.reported[index]!, slot)
    const ranked = [...this.reported].sort((a, b) => b - a)
    const agreed = ranked[ranked.length > 1 ? 1 : 0]!
    if (agreed <= this.slot) return
    const at_ms = this.options.monotonicMs()
    // A stall of the chain would distort the slot time.
    if (at_ms - this.advanced_ms > this.options.stall_ms) this.samples.length = 0
    this.slot = agreed
    this.advanced_ms = at_ms
    this.samples.push({ at_ms, slot: agreed })
    if (this.samples.length > LIMITS.slot_samples_max) this.samples.shift()
    for (const listener of this.listeners) listener(agreed)
  }
}
