/** Runs the thread that exports one batch, without load on the engine's thread. */

import { constants, setPriority } from 'node:os'
import { type ExportOrder, exportBatch } from './export_batch'
import type { Reply } from './open_exporter'

declare const self: Worker

// Linux applies the priority to the calling thread only: intake goes first when cores are scarce.
setPriority(constants.priority.PRIORITY_LOW)

self.onmessage = async ({ data }: MessageEvent<ExportOrder>) => {
  let reply: Reply
  try {
    reply = { file: await exportBatch(data) }
  } catch (error) {
    reply = { failure: error instanceof Error ? error.message : 'unknown' }
  }
  self.postMessage(reply)
}
