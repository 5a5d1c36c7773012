/** Paces history writes so that request threads get CPU time. */

import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import type { LoggedEvents } from './contract'
import { isDiskError } from './database'
import type { EventWriter } from './write_tables'

type Write = { events: LoggedEvents; point: ChainPoint }

type Pace = { nowMs(): number; rest(): Promise<unknown> }
export type GentleWrites = {
  /** Queues a write; writes run in the order of the calls. */
  push(write: Write): void
  /** Resolves with an empty queue: the database is free until the caller's next turn. Rejects after a failed write. */
  idle(): Promise<void>
}

/**
 * Rests only while no further batch is queued, because a history that falls behind ends in backpressure on the venue.
 *
 * @param written called after each batch with its watermark
 * @param stalled called after each attempt that the disk rejected
 * @param failed called once; nothing is written afterwards
 */
export function writeGently(
  writer: EventWriter,
  written: (watermark: number) => void,
  stalled: () => void,
  failed: (error: unknown) => void,
  pace: Pace = { nowMs: () => performance.now(), rest: () => Bun.sleep(LIMITS.history_rest_ms) },
): GentleWrites {
  const waiting: Write[] = []
  let running: Promise<void> | undefined
  let dead: Error | undefined

  async function run(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      while (!(await writes(next))) {
        stalled()
        await Bun.sleep(LIMITS.disk_retry_ms)
      }
      written(next.point.seq)
    }
  }

  /** False when the disk took no writes: the transaction is gone. */
  async function writes({ events, point }: Write): Promise<boolean> {
    try {
      const step = writer.write(events, point)
      for (let began_ms = pace.nowMs(); step(); ) {
        if (waiting.length > 0 || pace.nowMs() - began_ms < LIMITS.history_work_ms) continue
        await pace.rest()
        began_ms = pace.nowMs()
      }
      return true
    } catch (error) {
      writer.abandon()
      if (isDiskError(error)) return false
      throw error
    }
  }

  return {
    push(write) {
      waiting.push(write)
      if (dead !== undefined) return
      running ??= run().then(
        () => {
          running = undefined
        },
        (error) => {
          dead = error
          failed(error)
        },
      )
    },
    async idle() {
      while (running !== undefined && dead === undefined) await running
      if (dead !== undefined) throw dead
    },
  }
}
