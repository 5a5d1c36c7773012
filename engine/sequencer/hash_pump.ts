/** Hashes settlement batches in the worker, strictly in order, and journals each result. */

import { nextHashJob } from '../machine/settlement/payload'
import type { State } from '../machine/state/state'
import type { HashPort } from '../ports'
import type { Sequencer } from './sequencer'

export class HashPump {
  private running = false
  private stopped = false
  private idle_waiters: (() => void)[] = []

  constructor(
    private readonly state: State,
    private readonly hash: HashPort,
    private readonly sequencer: Sequencer,
    private readonly fatal: (error: Error) => void,
  ) {}

  /** Call when a batch may have been packed; does nothing while one is being hashed. */
  wake(): void {
    if (this.running || this.stopped || nextHashJob(this.state) === undefined) return
    this.running = true
    void this.run()
  }

  /** Resolves when every batch packed so far is hashed and its result durable, or when the pump stops. */
  idle(): Promise<void> {
    this.wake()
    if (!this.running) return Promise.resolve()
    return new Promise((resolve) => {
      this.idle_waiters.push(resolve)
    })
  }

  stop(): void {
    this.stopped = true
  }

  private async run(): Promise<void> {
    try {
      while (!this.stopped) {
        // A batch enters the spent log only when the auction that created it is durable.
        await this.sequencer.durable()
        const job = nextHashJob(this.state)
        if (job === undefined) break
        const result = await this.hash.hashBatch(job)
        await this.sequencer.submit({ kind: 'hashed', batch_id: job.batch_id, result })
      }
    } catch (error) {
      if (!this.stopped) this.fatal(error as Error)
    }
    this.running = false
    for (const resolve of this.idle_waiters.splice(0)) resolve()
  }
}
