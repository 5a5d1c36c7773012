/**
 * Orders what a socket is told about its account: hello, a gap if events are no longer kept, events, and one snapshot
 * placed exactly where it is true, so that a reader may apply frames one by one.
 */
import type { EventWithText, Json } from '../engine/venue'
import type { EventKind, Order } from '../protocol/wire'
import { eventFrames, type ServerFrame } from './_frames'
import type { Frames } from './_outbox'

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
