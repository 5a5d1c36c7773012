/** Owns when the history's thread writes and when it rests: those that answer are to find a core soon. */
import { LIMITS } from '../limits'
import type { Request } from './contract'
import type { EventWriter } from './write_tables'

type Write = Extract<Request, { op: 'write' }>

type Pace = { nowMs(): number; rest(): Promise<unknown> }
export type GentleWrites = {
  /** In the order of the calls. */
  push(write: Write): void
  /** Resolves when nothing is half written: until the caller's next turn the database is free. Rejects once it failed. */
  idle(): Promise<void>
}

/**
 * Rests only in a batch behind which no other waits: a history that falls behind makes the venue wait in the end.
 *
 * @param written told after each batch: its watermark
 * @param failed told once; nothing is written after it
 */
export function writeGently(
  writer: EventWriter,
  written: (watermark: number) => void,
  failed: (error: unknown) => void,
  pace: Pace = { nowMs: () => performance.now(), rest: () => Bun.sleep(LIMITS.history_rest_ms) },
): GentleWrites {
  const waiting: Write[] = []
  let running: Promise<void> | undefined
  let dead: Error | undefined

  async function run(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const step = writer.write(next.accounts, next.watermark)
      for (let began_ms = pace.nowMs(); step(); ) {
        if (waiting.length > 0 || pace.nowMs() - began_ms < LIMITS.history_work_ms) continue
        await pace.rest()
        began_ms = pace.nowMs()
      }
      written(next.watermark)
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
