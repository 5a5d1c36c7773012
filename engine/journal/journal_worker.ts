/** Runs the journal's thread. */

import { collectWhenQuiet } from '../memory/idle_gc'
import { type Request, replier, requestOf } from './contract'
import { JournalServer } from './journal_server'

declare const self: Worker

const worked = collectWhenQuiet()
const server = new JournalServer(replier((sent, moved) => self.postMessage(sent, moved)))

self.onmessage = ({ data }: MessageEvent<Request | ArrayBuffer>) => {
  worked()
  server.receive(requestOf(data))
}
