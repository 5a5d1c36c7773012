/** Has old segments, snapshots and stores verified at intervals, so that damage is known before a start needs them. */

import { LIMITS } from '../limits'

/** What is verified; `key` is the journal's. */
export type Scrubbed = { journal_dir: string; snapshots_dir: string; stores_dir: string; key: Uint8Array }

export class Scrub {
  /** Files that are not as they were written. */
  damaged: string[] = []
  private worker: Worker | undefined
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    private readonly what: Scrubbed,
    private readonly every_ms: number = LIMITS.scrub_every_ms,
  ) {}

  begin(): void {
    this.worker = new Worker(new URL('./scrub_worker.ts', import.meta.url))
    this.worker.onmessage = ({ data }: MessageEvent<string[]>) => {
      this.damaged = data
      this.wait()
    }
    this.wait()
  }

  /** One file after another: a slow disk delays the next one. */
  private wait(): void {
    this.timer = setTimeout(() => this.worker?.postMessage(this.what), this.every_ms)
  }

  stop(): void {
    clearTimeout(this.timer)
    this.worker?.terminate()
    this.worker = undefined
  }
}
