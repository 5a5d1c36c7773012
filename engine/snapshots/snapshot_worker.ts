/** Runs the thread that makes one snapshot from the journal's files, without load on the engine's thread. */

import { constants, setPriority } from 'node:os'
import { ReplayDisagrees } from '../sequencer/replayer'
import { StoreDamaged } from '../stores/part_file'
import { makeSnapshot, retirableBefore } from './make_snapshot'
import type { Reply, Request } from './snapshotting'

declare const self: Worker

// Linux applies the priority to the calling thread only: intake goes first when cores are scarce.
setPriority(constants.priority.PRIORITY_LOW)

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

self.onmessage = async ({ data }: MessageEvent<Request>) => self.postMessage(await answer(data))
