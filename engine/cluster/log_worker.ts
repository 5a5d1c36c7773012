/** Runs the journal's thread of a node: a frame is written here once the replicated log has it (cluster.md "Log"). */

import type { Request } from '../journal/contract'
import { JournalServer } from '../journal/journal_server'
import { collectWhenQuiet } from '../memory/idle_gc'
import type { LogOrder } from './cluster_node'
import { Etcd } from './etcd'
import { Deposed, ReplicatedLog, type Term } from './replicated_log'

declare const self: Worker

let log: ReplicatedLog | undefined
let term: Term | undefined

const worked = collectWhenQuiet()
const server = new JournalServer(
  (message, moved = []) =>
    self.postMessage(
      message,
      moved.map((bytes) => bytes.buffer as ArrayBuffer),
    ),
  async (frame) => {
    if (log === undefined || term === undefined) throw new Deposed('this node leads no term')
    await log.append(term, frame)
  },
)

self.onmessage = ({ data }: MessageEvent<Request | LogOrder>) => {
  worked()
  if (data.op === 'log') log = new ReplicatedLog(new Etcd(data.access), data.sealing)
  else if (data.op === 'lead') term = data.term
  else server.receive(data)
}
