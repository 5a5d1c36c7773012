/** Runs the thread that makes snapshots from the journal's files, without load on the engine's thread. */

import { constants, setPriority } from 'node:os'
import { ReplayDisagrees } from '../sequencer/replayer'
import { StoreDamaged } from '../stores/part_file'
import { makeSnapshot, retirableBefore } from './make_snapshot'
import type { Reply, Request, SnapshotSource } from './open_snapshot_maker'

declare const self: Worker

// Linux applies the priority to the calling thread only: intake goes first when cores are scarce.
setPriority(constants.priority.PRIORITY_LOW)

let source: SnapshotSource | undefined

async function answer(request: Extract<Request, { op: 'make' }>): Promise<Reply> {
  try {
    const made = await makeSnapshot(source!, request.point)
    return { op: 'made', ...made, retire_before: retirableBefore(source!, request.point) }
  } catch (error) {
    const message = error instanceof Error ? error.message : 'unknown'
    if (error instanceof ReplayDisagrees) return { op: 'failed', message, ends: 'disagrees' }
    return { op: 'failed', message, ends: error instanceof StoreDamaged ? 'damaged' : undefined }
  }
}

self.onmessage = async ({ data }: MessageEvent<Request>) => {
  if (data.op === 'open') {
    source = data.source
    return
  }
  const reply = await answer(data)
  // A round's state may be as large as the engine's: free it now, not in the next round.
  Bun.gc(true)
  self.postMessage(reply)
}
