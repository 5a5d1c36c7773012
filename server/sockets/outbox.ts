/** Sends the frames of one socket in order and within bounds, and orders its events around one snapshot without a gap. */

import type { EventWithText, Json } from '../../engine/venue'
import type { EventKind, Order } from '../../protocol/wire/trading'
import type { Meters } from '../edge/meters'
import { OUTBOX_BYTES_MAX, TRANSPORT_BYTES_MAX } from '../limits'
import { eventFrames, type ServerFrame } from './frames'

/** The part of Bun's ServerWebSocket that is used. */
export interface Transport {
  /** Bytes sent, -1 when queued, 0 when dropped. */
  send(text: string): number
  sendBytes(bytes: Uint8Array): number
  getBufferedAmount(): number
  cork(send: () => void): void
  close(code: number, reason: string): void
  terminate(): void
}

/** Frames in order and the sum of their lengths; the outboxes of many sockets may share one list. */
export type Frames = { readonly texts: readonly string[]; readonly bytes: number }

export interface Outbox {
  push(text: string): void
  /** Frames pushed in one turn of the event loop are sent with one write to the socket. */
  pushAll(frames: Frames): void
  /** Sends as much as the transport takes; the socket calls it again when the transport drains. */
  pump(): void
  attach(transport: Transport): void
  isEmpty(): boolean
  clear(): void
}

/** Calls `onSlow` once: when more than OUTBOX_BYTES_MAX wait, or when the transport drops a frame. */
export function openOutbox(meters: Meters, onSlow: () => void): Outbox {
  const queue = new FrameQueue()
  let transport: Transport | undefined
  let broken = false
  let due = false

  const clear = () => {
    broken = true
    queue.clear()
  }
  const fail = () => {
    if (broken) return
    clear()
    onSlow()
  }
  const sendSome = () => {
    let room = 0
    let sent = 0
    while (!queue.isEmpty()) {
      // Read once for many frames: the call costs as much as a frame.
      if (room <= 0) room = TRANSPORT_BYTES_MAX - transport!.getBufferedAmount()
      if (room <= 0) break
      const text = queue.shift()
      room -= text.length
      // A dropped frame is a gap the client cannot see: close the socket.
      if (transport!.send(text) === 0) return fail()
      sent += 1
    }
    meters.framesSent(sent)
  }
  const pump = () => {
    due = false
    if (transport === undefined || broken || queue.isEmpty()) return
    transport.cork(sendSome)
    queue.compact()
  }
  const pushAll = (frames: Frames) => {
    if (broken || frames.texts.length === 0) return
    queue.push(frames)
    if (queue.bytes > OUTBOX_BYTES_MAX) pump()
    if (queue.bytes > OUTBOX_BYTES_MAX) fail()
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
    isEmpty: () => queue.isEmpty(),
    clear,
  }
}

class FrameQueue {
  /** Length of all queued frames. */
  bytes = 0
  private lists: Frames[] = []
  /** Index of the first list with unsent frames, and of the first unsent frame in it. */
  private list = 0
  private frame = 0

  isEmpty(): boolean {
    return this.list === this.lists.length
  }

  push(frames: Frames): void {
    this.lists.push(frames)
    this.bytes += frames.bytes
  }

  /** Removes the first frame; the queue must not be empty. */
  shift(): string {
    const { texts } = this.lists[this.list]!
    const text = texts[this.frame]!
    this.bytes -= text.length
    this.frame += 1
    if (this.frame === texts.length) {
      this.list += 1
      this.frame = 0
    }
    return text
  }

  /** Releases the lists that are sent. */
  compact(): void {
    if (this.isEmpty()) this.lists = []
    else if (this.list > 1_024) this.lists = this.lists.slice(this.list)
    else return
    this.list = 0
  }

  clear(): void {
    this.lists = []
    this.bytes = this.list = this.frame = 0
  }
}

export type Snapshot = { seq: number; orders: Json<Order[]> }
type Early = EventWithText | { gap_from: number; gap_to: number }

/**
 * Orders the frames about the account: hello, a gap where events are no longer kept, events, and the snapshot directly after
 * the event of its seq, so that a client applies frames one by one.
 */
export interface Delivery {
  events(events: readonly EventWithText[]): void
  gap(seq_from: number, seq_to: number): void
  /** Sends hello, then everything queued. The client knows events up to `base`; without `snapshot` it resumes from events. */
  begin(hello: ServerFrame, base: number, snapshot: Snapshot | undefined): void
  /** Number of events queued for `begin`. */
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
    // A renewed subscription repeats the events that the previous one had in flight.
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
