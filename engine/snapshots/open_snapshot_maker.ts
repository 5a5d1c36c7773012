/** Opens the snapshot thread and declares its interface and messages. */

import type { ChainPoint } from '../../protocol/units'
import type { Covered } from '../commands'
import { StoreDamaged } from '../stores/part_file'

/** Folders of journal and snapshots, and the keys and parameters to read and replay them. */
export type SnapshotSource = {
  journal_dir: string
  snapshots_dir: string
  stores_dir: string
  journal_key: Uint8Array
  retention_ms: number
}
/** A durable place in the journal, and the newest snapshot that counts, from which the next one is made. */
export type SnapshotPoint = ChainPoint & { unix_ms: number; newest: JournaledSnapshot | undefined }
/** What the journal says of a snapshot. */
export type JournaledSnapshot = { seq: number; state_hash: Uint8Array; catalogue_hash: Uint8Array }
/** Records below `retire_before` are needed neither for a boot nor for retention; 0 for none. */
export type MadeSnapshot = {
  state_hash: Uint8Array
  catalogue_hash: Uint8Array
  covered: Covered
  /** Seq of the snapshot that it was made of, the one before the newest if that was gone; undefined if of the whole journal. */
  made_of: number | undefined
  retire_before: number
}

export type Request = { source: SnapshotSource; point: SnapshotPoint }
export type Reply =
  | ({ op: 'made' } & MadeSnapshot)
  /** `ends` where only another start helps. */
  | { op: 'failed'; message: string; ends: 'disagrees' | 'damaged' | undefined }

/** The snapshot thread's replay differs from this process's decisions: the next boot would fail too. */
export class SnapshotDisagrees extends Error {
  override readonly name = 'SnapshotDisagrees'
}

export type SnapshotMaker = {
  /**
   * One call at a time. The read models must have reached `point`. Resolves once the snapshot is on disk; it counts when
   * its hash is journaled.
   * Rejects with SnapshotDisagrees, or with an Error when the snapshot could not be written.
   */
  make(point: SnapshotPoint): Promise<MadeSnapshot>
  close(): void
}

type Waiting = { resolve: (made: MadeSnapshot) => void; reject: (error: Error) => void }

/** Each snapshot has its own thread: a second state lived there, and an idle thread keeps much of the memory. */
export function openSnapshotMaker(source: SnapshotSource): SnapshotMaker {
  let worker: Worker | undefined
  let waiting: Waiting | undefined
  const settle = (how: (one: Waiting) => void) => {
    const one = waiting
    worker?.terminate()
    worker = undefined
    waiting = undefined
    if (one !== undefined) how(one)
  }
  return {
    make(point) {
      if (waiting !== undefined) throw new Error('a snapshot is already in progress')
      worker = new Worker(new URL('./snapshot_worker.ts', import.meta.url))
      worker.onmessage = ({ data }: MessageEvent<Reply>) => settle((one) => receive(data, one))
      worker.onerror = ({ message }) =>
        settle(({ reject }) => reject(new Error(`the snapshot thread failed: ${message}`)))
      worker.postMessage({ source, point } satisfies Request)
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject }
      })
    },
    close: () => settle(({ reject }) => reject(new Error('the snapshot thread was closed'))),
  }
}

function receive(reply: Reply, { resolve, reject }: Waiting): void {
  if (reply.op === 'made') resolve(reply)
  else if (reply.ends === 'disagrees') reject(new SnapshotDisagrees(reply.message))
  else if (reply.ends === 'damaged') reject(new StoreDamaged(reply.message))
  else reject(new Error(reply.message))
}
