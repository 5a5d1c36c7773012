/** Runs the journal's thread. */

import { collectWhenQuiet } from '../memory/idle_gc'
import type { Request } from './contract'
import { serveJournal } from './serve_journal'

declare const self: Worker

const worked = collectWhenQuiet()
const serve = serveJournal((message, moved = []) =>
  self.postMessage(
    message,
    moved.map((bytes) => bytes.buffer as ArrayBuffer),
  ),
)

self.onmessage = ({ data }: MessageEvent<Request>) => {
  worked()
  serve(data)
}
