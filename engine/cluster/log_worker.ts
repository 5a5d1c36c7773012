/** Runs the journal's thread of a node: a frame is written here once the replicated log has it (cluster.md "Log"). */

import { type Request, replier, requestOf } from '../journal/contract'
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
  replier((sent, moved) => self.postMessage(sent, moved)),
  async (frame) => {
    if (log === undefined || term === undefined) throw new Deposed('this node leads no term')
    await log.append(term, frame)
  },
)

self.onmessage = ({ data }: MessageEvent<Request | ArrayBuffer | LogOrder>) => {
  worked()
  if (data instanceof ArrayBuffer) server.receive(requestOf(data))
  else if (data.op === 'log') log = new ReplicatedLog(new Etcd(data.access), data.sealing)
  else if (data.op === 'lead') term = data.term
  else server.receive(data)
}
