/** Measures the free space of the data volume, whose last part is reserved for cancels, withdrawals and a drain. */

import { LIMITS } from '../limits'
import { disk } from './disk'

export class DiskGauge {
  /** As of the last measurement that succeeded. */
  free_bytes = 0
  private timer: ReturnType<typeof setInterval> | undefined

  constructor(private readonly dir: string) {}

  /** Measures once, then at intervals. */
  async begin(): Promise<void> {
    await this.measure()
    this.timer = setInterval(() => void this.measure(), LIMITS.disk_look_ms)
  }

  stop(): void {
    clearInterval(this.timer)
  }

  /** Less than the reserve is free. */
  isFull(): boolean {
    return this.free_bytes < LIMITS.disk_reserve_bytes
  }

  async measure(): Promise<void> {
    // A volume that cannot be measured fails writes too, which say so themselves.
    this.free_bytes = await disk.freeBytes(this.dir).catch(() => this.free_bytes)
  }
}
