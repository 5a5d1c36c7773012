/** What is due now and then while the venue runs: old read models go. */
import type { History } from '../history/contract'
import { LIMITS } from '../limits'
import type { ClockPort } from '../ports'

export class Upkeep {
  private timer: ReturnType<typeof setInterval> | undefined

  constructor(
    private readonly history: History,
    private readonly clock: ClockPort,
  ) {}

  begin(): void {
    this.timer = setInterval(() => void this.prune(), LIMITS.prune_every_ms)
    this.timer.unref()
    void this.prune()
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private async prune(): Promise<void> {
    try {
      await this.history.prune(this.clock.unixMs())
    } catch {
      // Broken read models are rebuilt at the next opening; reads tell it meanwhile.
    }
  }
}
