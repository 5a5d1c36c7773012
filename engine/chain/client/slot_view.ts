/** Keeps the slot, block height and clock that a quorum of providers shows, monotone, and the slot time. */
import { LIMITS } from '../../limits'
import type { ChainHealth } from './health'
import { type Answer, type RpcPool, wholeOf } from './rpc_pool'

type SlotViewOptions = {
  monotonicMs: () => number
  /** Initial estimate of the slot time, until enough slots were measured. */
  slot_ms: number
  /** Without a new slot for this long the chain counts as stalled. */
  stall_ms: number
}
/** The levels of commitment at which anything of the chain counts. */
export type Level = 'confirmed' | 'finalized'

export class SlotView {
  /** Newest slot and height that each provider shows; 0 before its first answer. */
  private readonly shown: Record<Level | 'height', number[]>
  private readonly agreed_numbers = { confirmed: 0, finalized: 0, height: 0 }
  private readonly samples: { at_ms: number; slot: number }[] = []
  private readonly listeners = new Set<(slot: number) => void>()
  /** Levels at which a quorum shows a slot absurdly far ahead. */
  private readonly absurd = new Set<Level | 'height'>()
  private advanced_ms: number
  /** The agreed second, and when it was first shown. */
  private clock = { unix_s: 0, at_ms: 0 }

  constructor(
    readonly rpc: RpcPool,
    readonly health: ChainHealth,
    readonly options: SlotViewOptions,
  ) {
    const zeros = () => rpc.hosts.map(() => 0)
    this.shown = { confirmed: zeros(), finalized: zeros(), height: zeros() }
    this.advanced_ms = options.monotonicMs()
    health.watch('slot_stalled', () => this.isStalled())
    health.watch('slot_absurd', () => this.absurd.size > 0)
  }

  /** Polls every provider until the pool closes; resolves then. */
  async run(): Promise<void> {
    await Promise.all(this.rpc.hosts.map((_, at) => this.poll(at)))
  }

  now(): { slot: number; lag_ms: number; slot_ms: number; unix_ms: number } {
    const lag_ms = this.options.monotonicMs() - this.advanced_ms
    return { slot: this.agreed_numbers.confirmed, lag_ms, slot_ms: this.slotMs(), unix_ms: this.unixMs() }
  }

  /** The chain's clock, continued by elapsed time; 0 before a quorum has shown one. */
  private unixMs(): number {
    const { unix_s, at_ms } = this.clock
    return unix_s === 0 ? 0 : Math.floor(1_000 * unix_s + this.options.monotonicMs() - at_ms)
  }

  /** @param shown_s the chain's clock at confirmed that each provider showed last, 0 for none */
  showClock(shown_s: readonly number[]): void {
    const unix_s = this.rpc.reached(shown_s)!
    if (unix_s > this.clock.unix_s) this.clock = { unix_s, at_ms: this.options.monotonicMs() }
  }

  /** Slot at a level, or the confirmed block height. */
  agreed(what: Level | 'height'): number {
    return this.agreed_numbers[what]
  }

  /**
   * The account reads that count: not further behind the agreed slot than allowed, and not older than the reader's last one
   * of this provider. A slot ahead of the agreed one counts as that, so a false claim makes no other answer late.
   * @param seen by provider: newest slot of the reader's earlier answers; updated
   */
  fresh<T extends { slot: number }>(
    level: Level,
    answers: readonly Answer<T>[],
    seen: number[] = [],
  ): Answer<T>[] {
    for (const { at, value } of answers) this.show(level, at, value.slot)
    const agreed = this.agreed_numbers[level]
    return answers.filter(({ at, value: { slot } }) => {
      const late = slot < agreed - LIMITS.chain_lag_slots_max
      this.health.judge(level, at, !late, 'provider_behind')
      if (late || slot < (seen[at] ?? 0)) return false
      seen[at] = Math.min(slot, agreed)
      return true
    })
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
    if (this.agreed_numbers.confirmed > slot) return
    const advanced = Promise.withResolvers<void>()
    const stop = this.onSlot(() => advanced.resolve())
    await Promise.race([advanced.promise, this.rpc.sleep(this.slotMs())])
    stop()
  }

  private async poll(at: number): Promise<void> {
    for (let failures = 0; !this.rpc.closed; ) {
      try {
        const { absoluteSlot, blockHeight } = await this.rpc.each[at]!.read((endpoint, abortSignal) =>
          endpoint.getEpochInfo({ commitment: 'confirmed' }).send({ abortSignal }),
        )
        const [height, slot] = [wholeOf(blockHeight), wholeOf(absoluteSlot)]
        failures = 0
        this.show('height', at, height)
        this.show('confirmed', at, slot)
      } catch {
        failures += 1
      }
      this.health.judge('slot', at, failures === 0, 'provider_silent')
      const pause_ms = Math.min(LIMITS.slot_poll_max_ms, Math.max(LIMITS.slot_poll_min_ms, this.slotMs() / 3))
      await this.rpc.sleep(Math.min(LIMITS.rpc_backoff_max_ms, pause_ms * 2 ** Math.min(failures, 5)))
    }
  }

  /** The agreed number is the highest that a quorum of providers reaches. */
  private show(what: Level | 'height', at: number, shown: number): void {
    this.shown[what][at] = shown
    const before = this.agreed_numbers[what]
    const agreed = this.rpc.reached(this.shown[what])!
    const ahead = shown > Math.max(agreed, before) + LIMITS.chain_ahead_slots_max
    this.health.judge(what, at, before === 0 || !ahead, 'provider_ahead')
    if (agreed <= before) return
    const at_ms = this.options.monotonicMs()
    const elapsed_ms = at_ms - this.advanced_ms
    // No chain makes slots this fast: not even a quorum may expire the book by naming one.
    const slot_max = before + LIMITS.slot_jump_max + elapsed_ms / LIMITS.slot_ms_min
    if (before > 0 && agreed > slot_max) {
      this.absurd.add(what)
      return
    }
    this.absurd.delete(what)
    this.agreed_numbers[what] = agreed
    if (what === 'confirmed') this.advance(agreed, at_ms, elapsed_ms)
  }

  private advance(slot: number, at_ms: number, elapsed_ms: number): void {
    // A stall of the chain would distort the slot time.
    if (elapsed_ms > this.options.stall_ms) this.samples.length = 0
    this.advanced_ms = at_ms
    this.samples.push({ at_ms, slot })
    if (this.samples.length > LIMITS.slot_samples_max) this.samples.shift()
    for (const listener of this.listeners) listener(slot)
  }
}
