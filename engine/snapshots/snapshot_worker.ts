/** Runs the thread that makes one snapshot from the journal's files, without load on the engine's thread. */

import { constants, getPriority, setPriority } from 'node:os'
import { ReplayDisagrees } from '../sequencer/replayer'
import { StoreDamaged } from '../stores/part_file'
import { makeSnapshot, retirableBefore } from './make_snapshot'
import type { Reply, Request } from './snapshotting'

declare const self: Worker

async function answer({ source, point }: Request): Promise<Reply> {
  try {
    const made = await makeSnapshot(source, point)
    return { op: 'made', ...made, retire_before: retirableBefore(source, point, made.made_of) }
  } catch (error) {
    const message = error instanceof Error ? error.message : 'unknown'
    if (error instanceof ReplayDisagrees) return { op: 'failed', message, ends: 'disagrees' }
    return { op: 'failed', message, ends: error instanceof StoreDamaged ? 'damaged' : undefined }
  }
}

self.onmessage = async ({ data }: MessageEvent<Request>) => {
  const { PRIORITY_LOW } = constants.priority
  // Linux applies the priority to the calling thread only: intake goes first when cores are scarce. A late snapshot goes with
  // the history, because its rows fill the memory, and orders are rejected once it is full.
  setPriority(data.is_late ? Math.min(PRIORITY_LOW, getPriority() + 5) : PRIORITY_LOW)
  self.postMessage(await answer(data))
}
