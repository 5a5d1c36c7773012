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

/** Frames in order and their bytes; many outboxes may hold the same. */
export type Frames = { readonly texts: readonly string[]; readonly bytes: number }

export interface Outbox {
  push(text: string): void
  /** Goes out with everything pushed in the same turn: one write to the socket instead of one for each frame. */
  pushAll(frames: Frames): void
  /** Sends what the transport takes now; called again when it drains. */
  pump(): void
  attach(transport: Transport): void
  isEmpty(): boolean
  clear(): void
}

/** `onSlow` is called once, when the bound is passed or the transport drops a frame. */
export function openOutbox(meters: Meters, onSlow: () => void): Outbox {
  let transport: Transport | undefined
  let waiting: Frames[] = []
  let head = 0
  /** Of the frames at the head, how many are sent. */
  let begun = 0
  let bytes = 0
  let broken = false
  let due = false

  const clear = () => {
    broken = true
    waiting = []
    head = begun = bytes = 0
  }
  const fail = () => {
    if (broken) return
    clear()
    onSlow()
  }
  const sendSome = () => {
    let room = 0
    let sent = 0
    for (; head < waiting.length; head += 1) {
      const { texts } = waiting[head]!
      for (; begun < texts.length; begun += 1) {
        // Asked once for many frames: the question costs as much as a frame.
        if (room <= 0) room = TRANSPORT_BYTES_MAX - transport!.getBufferedAmount()
        if (room <= 0) return meters.framesSent(sent)
        const text = texts[begun]!
        room -= text.length
        bytes -= text.length
        // Zero means the frame is gone: a hole the reader could not see, so the socket ends instead.
        if (transport!.send(text) === 0) return fail()
        sent += 1
      }
      begun = 0
    }
    meters.framesSent(sent)
  }
  /** What is sent need not be held. */
  const forget = () => {
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
    forget()
  }
  const pushAll = (frames: Frames) => {
    if (broken || frames.texts.length === 0) return
    waiting.push(frames)
    bytes += frames.bytes
    if (bytes > OUTBOX_BYTES_MAX) pump()
    if (bytes > OUTBOX_BYTES_MAX) fail()
    if (due) return
    due = true
    queueMicrotask(() => {
      if (due) pump()
    })
  }
  return {
    push: (text) => pushAll({ texts: [text], bytes: text.length }),
    pushAll,
    pump,
    attach(opened) {
      transport = opened
      pump()
    },
    isEmpty: () => head === waiting.length,
    clear,
  }
}
