/** What waits to be sent on one socket: in order, bounded, and handed to the transport only as fast as the peer reads. */
import type { Meters } from './_meters'

/** Bytes that may wait before the reader counts as too slow. */
export const OUTBOX_BYTES_MAX = 8 * 1024 * 1024
/** The transport holds at most this much, so that a close frame behind it still arrives soon. */
const TRANSPORT_BYTES_MAX = 256 * 1024

/** The part of Bun's ServerWebSocket that is used. */
export interface Transport {
  /** Bytes sent, -1 when queued, 0 when dropped. */
  send(text: string): number
  getBufferedAmount(): number
  cork(send: () => void): void
  close(code: number, reason: string): void
  terminate(): void
}

export interface Outbox {
  /** Goes out with everything pushed in the same turn: one write to the socket instead of one for each frame. */
  push(text: string): void
  /** Sends what the transport takes now; called again when it drains. */
  pump(): void
  attach(transport: Transport): void
  isEmpty(): boolean
  clear(): void
}

/** `onSlow` is called once, when the bound is passed or the transport drops a frame. */
export function openOutbox(meters: Meters, onSlow: () => void): Outbox {
  let transport: Transport | undefined
  let waiting: string[] = []
  let head = 0
  let bytes = 0
  let broken = false
  let due = false

  const fail = () => {
    if (broken) return
    broken = true
    waiting = []
    head = 0
    onSlow()
  }
  const sendSome = () => {
    let room = 0
    while (head < waiting.length) {
      // Asked once for many frames: the question costs as much as a frame.
      if (room <= 0) room = TRANSPORT_BYTES_MAX - transport!.getBufferedAmount()
      if (room <= 0) break
      const text = waiting[head]!
      room -= text.length
      const result = transport!.send(text)
      // Zero means the frame is gone: a hole the reader could not see, so the socket ends instead.
      if (result === 0) return fail()
      head += 1
      bytes -= text.length
      meters.frameSent()
    }
    if (head === waiting.length) {
      waiting = []
      head = 0
    } else if (head > 1_024) {
      waiting = waiting.slice(head)
      head = 0
    }
  }
  const pump = () => {
    due = false
    if (transport === undefined || broken || head === waiting.length) return
    transport.cork(sendSome)
  }
  return {
    push(text) {
      if (broken) return
      waiting.push(text)
      bytes += text.length
      if (bytes > OUTBOX_BYTES_MAX) pump()
      if (bytes > OUTBOX_BYTES_MAX) fail()
      if (due) return
      due = true
      queueMicrotask(() => {
        if (due) pump()
      })
    },
    pump,
    attach(opened) {
      transport = opened
      pump()
    },
    isEmpty: () => head === waiting.length,
    clear() {
      broken = true
      waiting = []
      head = 0
    },
  }
}
