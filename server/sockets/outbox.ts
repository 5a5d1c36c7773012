/** The frames a socket has still to send: order, backpressure, and events delivered without a gap. */
import type { EventWithText, Json } from '../../engine/venue'
import type { EventKind, Order } from '../../protocol/wire/trading'
import type { Meters } from '../edge/meters'
import { OUTBOX_BYTES_MAX, TRANSPORT_BYTES_MAX } from '../limits'
import { eventFrames, type ServerFrame } from './frames'

// What waits to be sent on one socket: in order, bounded, and handed to the transport only as fast as the peer reads.

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

// Orders what a socket is told about its account: hello, a gap if events are no longer kept, events, and one snapshot
// placed exactly where it is true, so that a reader may apply frames one by one.

export type Snapshot = { seq: number; orders: Json<Order[]> }
type Early = EventWithText | { gap_from: number; gap_to: number }

export interface Delivery {
  events(events: readonly EventWithText[]): void
  gap(seq_from: number, seq_to: number): void
  /** Frames wait for this call. The reader knows events up to `base`; without `snapshot` it resumes from events alone. */
  begin(hello: ServerFrame, base: number, snapshot: Snapshot | undefined): void
  /** Seq of the newest event seen, sent or not of this stream's kinds. */
  last(): number
  /** Events that wait for `begin`. */
  waiting(): number
}

export function openDelivery(args: {
  kinds: (kind: EventKind) => boolean
  send: (text: string) => void
  sendAll: (frames: Frames) => void
}): Delivery {
  const early: Early[] = []
  let begun = false
  let due: Snapshot | undefined
  let last = 0

  const sendSnapshotUpTo = (seq: number) => {
    if (due === undefined || due.seq > seq) return
    args.send(snapshotFrame(due))
    due = undefined
  }
  const deliver = (events: readonly EventWithText[]) => {
    last = events.at(-1)!.event.seq
    args.sendAll(eventFrames(events, args.kinds))
  }
  const deliverOne = (one: EventWithText) => {
    // A renewed subscription overlaps the one before it by what was under way.
    if (one.event.seq <= last) return
    sendSnapshotUpTo(one.event.seq - 1)
    deliver([one])
    sendSnapshotUpTo(last)
  }
  const skip = (seq_from: number, seq_to: number) => {
    if (seq_to <= last) return
    args.send(JSON.stringify({ type: 'gap', seq_from, seq_to } satisfies ServerFrame))
    last = seq_to
    sendSnapshotUpTo(last)
  }
  return {
    last: () => last,
    waiting: () => early.length,
    events(events) {
      if (!begun) for (const one of events) early.push(one)
      else if (due === undefined && events[0]!.event.seq > last) deliver(events)
      else for (const one of events) deliverOne(one)
    },
    gap(gap_from, gap_to) {
      if (begun) skip(gap_from, gap_to)
      else early.push({ gap_from, gap_to })
    },
    begin(hello, base, snapshot) {
      begun = true
      due = snapshot
      last = base
      args.send(JSON.stringify(hello))
      if (early.length === 0) sendSnapshotUpTo(last)
      for (const item of early.splice(0)) {
        if ('gap_to' in item) skip(item.gap_from, item.gap_to)
        else deliverOne(item)
      }
      sendSnapshotUpTo(last)
    },
  }
}

function snapshotFrame({ seq, orders }: Snapshot): string {
  return `{"type":"snapshot","seq":${seq},"orders":${orders}}`
}
