/** Runs the journal's thread. */

import { collectWhenQuiet } from '../memory/idle_gc'
import type { Request } from './contract'
import { JournalServer } from './journal_server'

declare const self: Worker

const worked = collectWhenQuiet()
const server = new JournalServer((message, moved = []) =>
  self.postMessage(
    message,
    moved.map((bytes) => bytes.buffer as ArrayBuffer),
  ),
)

self.onmessage = ({ data }: MessageEvent<Request>) => {
  worked()
  server.receive(data)
}
