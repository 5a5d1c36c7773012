/** Counters of the HTTP and socket face for the operator's metrics; nothing per account, instrument or order. */
import { REFUSALS, type RefusalCode } from '../protocol/refusals'

export type Metric = {
  name: string
  help: string
  type: 'counter' | 'gauge'
  labels?: Record<string, string>
  value: number
}
export interface Meters {
  answered(): void
  refused(code: RefusalCode): void
  socketOpened(): void
  socketClosed(code: number): void
  frameReceived(): void
  framesSent(count: number): void
  read(): Metric[]
}

export function openMeters(): Meters {
  const refusals = new Map<RefusalCode, number>()
  const closes = new Map<string, number>()
  let answers = 0
  let sockets = 0
  let frames_in = 0
  let frames_out = 0
  return {
    answered() {
      answers += 1
    },
    refused(code) {
      refusals.set(code, (refusals.get(code) ?? 0) + 1)
    },
    socketOpened() {
      sockets += 1
    },
    socketClosed(code) {
      sockets -= 1
      // Only the codes this venue gives have a row of their own, so clients cannot grow the table.
      const name = OWN_CLOSES.has(code) ? String(code) : 'other'
      closes.set(name, (closes.get(name) ?? 0) + 1)
    },
    frameReceived() {
      frames_in += 1
    },
    framesSent(count) {
      frames_out += count
    },
    read: () => [
      counter('tacit_http_answers_total', 'Requests answered with success.', answers),
      ...REFUSALS.filter(({ code }) => refusals.has(code)).map(({ code }) =>
        counter('tacit_http_refusals_total', 'Refusals answered, by code.', refusals.get(code)!, { code }),
      ),
      { name: 'tacit_sockets', help: 'Open sockets.', type: 'gauge', value: sockets },
      counter('tacit_socket_frames_received_total', 'Frames received.', frames_in),
      counter('tacit_socket_frames_sent_total', 'Frames sent.', frames_out),
      ...[...closes].map(([code, value]) =>
        counter('tacit_socket_closes_total', 'Sockets closed by close code.', value, { code }),
      ),
    ],
  }
}

const OWN_CLOSES = new Set([1000, 1001, 1006, 1009, 1011, 1012, 4401, 4408, 4429])

function counter(name: string, help: string, value: number, labels?: Record<string, string>): Metric {
  return { name, help, type: 'counter', value, ...(labels === undefined ? {} : { labels }) }
}
