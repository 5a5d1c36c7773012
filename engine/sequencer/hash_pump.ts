/** Hashes settlement batches in the worker, strictly in order, and journals each result. */

import type { CommandOf } from '../commands'
import { inventedExits } from '../machine/rules/settled'
import { nextHashJob } from '../machine/settlement/payload'
import { type Past, spentBatches } from '../machine/state/past'
import type { State } from '../machine/state/state'
import type { HashPort } from '../ports'
import type { Outbox } from './outbox'
import type { Sequencer } from './sequencer'

export class HashPump {
  private running = false
  /** `held` until `begin`. */
  private phase: 'held' | 'begun' | 'stopped' = 'held'
  private idle_waiters: (() => void)[] = []

  constructor(
    private readonly state: State,
    private readonly past: Past,
    private readonly hash: HashPort,
    private readonly sequencer: Sequencer,
    private readonly outbox: Pick<Outbox, 'restartAfter'>,
    private readonly fatal: (error: Error) => void,
  ) {}

  /** The epoch of this process is open: records may follow that of its boot. */
  begin(): void {
    if (this.phase === 'held') this.phase = 'begun'
    this.wake()
  }

  /** Call when a batch may have been packed; does nothing while one is being hashed. */
  wake(): void {
    if (this.running || this.phase !== 'begun' || nextHashJob(this.state) === undefined) return
    this.running = true
    void this.run()
  }

  /** Resolves when every batch packed so far is hashed and its result durable, or when the pump stops or cannot continue. */
  idle(): Promise<void> {
    this.wake()
    if (!this.running) return Promise.resolve()
    return new Promise((resolve) => {
      this.idle_waiters.push(resolve)
    })
  }

  stop(): void {
    this.phase = 'stopped'
  }

  private async run(): Promise<void> {
    try {
      while (this.phase === 'begun') {
        // A batch enters the spent log only when the auction that created it is durable.
        await this.sequencer.durable()
        const job = nextHashJob(this.state)
        if (job === undefined) break
        const { batch_id } = job
        const hashed = { kind: 'hashed' as const, batch_id, result: await this.hash.hashBatch(job) }
        if (!(await this.record(hashed))) break
      }
    } catch (error) {
      if (this.phase === 'begun') this.fatal(error as Error)
    }
    this.running = false
    for (const resolve of this.idle_waiters.splice(0)) resolve()
  }

  /** False when the result cannot be applied: the venue halts until the chain takes the other spending back. */
  private async record(hashed: Omit<CommandOf<'hashed'>, 'unix_ms'>): Promise<boolean> {
    const { state, sequencer, outbox } = this
    const { batch_id } = hashed
    const invented = inventedExits(state, hashed)
    if (invented === undefined) {
      if (state.halted === undefined) await sequencer.submit({ kind: 'halted', reason: 'root_mismatch' })
      return false
    }
    if (invented.some(({ settlement_batch }) => settlement_batch < batch_id)) {
      await outbox.restartAfter(() => [sequencer.submit(hashed)])
      return false
    }
    await sequencer.submit(hashed)
    // The worker has logged the batch with them.
    if (invented.length > 0) await this.hash.restoreSpent([...spentBatches(state, this.past, batch_id)])
    return true
  }
}
