/** The thread that makes snapshots: it reads the journal's files, so the engine's own thread pays nothing for them. */
import { constants, setPriority } from 'node:os'
import { ReplayDisagrees } from '../sequencer/replayer'
import { makeSnapshot } from './make_snapshot'
import type { Reply, Request, SnapshotSource } from './open_snapshot_maker'
import { retirableBefore } from './snapshotting'

declare const self: Worker

// Linux gives a priority to the calling thread alone: where cores are short, intake goes first.
setPriority(constants.priority.PRIORITY_LOW)

let source: SnapshotSource | undefined

async function answer(request: Extract<Request, { op: 'make' }>): Promise<Reply> {
  try {
    await makeSnapshot(source!, request.point)
    return { op: 'made', retire_before: retirableBefore(source!, request.point) }
  } catch (error) {
    const disagrees_at = error instanceof ReplayDisagrees ? error.seq : undefined
    return { op: 'failed', message: error instanceof Error ? error.message : 'unknown', disagrees_at }
  }
}

self.onmessage = async ({ data }: MessageEvent<Request>) => {
  if (data.op === 'open') {
    source = data.source
    return
  }
  const reply = await answer(data)
  // The state of a round may be as large as the engine's: it must not wait for the next round to be let go.
  Bun.gc(true)
  self.postMessage(reply)
}
