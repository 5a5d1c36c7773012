/** Has old segments, snapshots and stores verified at intervals, so that damage is known before a start needs them. */

import { LIMITS } from '../limits'

/** Where the files are; `key` is the journal's. */
type Folders = { journal_dir: string; snapshots_dir: string; stores_dir: string; key: Uint8Array }
/** The files to verify. `kept` are the snapshots that must be there, with their catalogues. */
export type Scrubbed = Folders & { kept: readonly number[] }

export class Scrub {
  /** Files that are not as they were written. */
  damaged: string[] = []
  private worker: Worker | undefined
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    private readonly folders: Folders,
    /** Seqs of the snapshots that must be there now. */
    private readonly kept: () => readonly number[],
    private readonly every_ms: number = LIMITS.scrub_every_ms,
  ) {}

  begin(): void {
    this.worker = new Worker(new URL('./scrub_worker.ts', import.meta.url))
    this.look()
  }

  /** One file after another: a slow disk delays the next one. */
  private look(): void {
    this.timer = setTimeout(() => {
      const { worker } = this
      const kept = this.kept()
      if (worker === undefined) return
      worker.onmessage = ({ data }: MessageEvent<string[]>) => {
        // Files of a snapshot that was replaced meanwhile may be missing.
        if (`${this.kept()}` === `${kept}`) this.damaged = data
        this.look()
      }
      worker.postMessage({ ...this.folders, kept } satisfies Scrubbed)
    }, this.every_ms)
  }

  stop(): void {
    clearTimeout(this.timer)
    this.worker?.terminate()
    this.worker = undefined
  }
}
