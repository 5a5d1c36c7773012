/** Deletes expired rows of the read models at intervals while the venue runs. */
import type { History } from '../history/contract'
import { LIMITS } from '../limits'
import type { ClockPort } from '../ports'

export class Retention {
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
      // The next boot rebuilds broken read models; until then reads report the error.
    }
  }
}
