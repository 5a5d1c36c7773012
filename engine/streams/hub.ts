/** Delivers durable events to the streams of their account in seq order, and resumes a stream without a gap. */

import { Refusal } from '../../protocol/refusals'
import type { EventSeq } from '../../protocol/units'
import type { AccountEvent } from '../../protocol/wire/trading'
import { type History, HistoryBroken } from '../history/contract'
import type { Slices } from '../history/slices'
import { LIMITS } from '../limits'
import type { AccountsPort } from '../ports'
import type { Caller, EventSink, EventWithText, Session, Subscription } from '../venue'

/** `cursor` is the last seq sent; `live` once the stream has caught up with the log. */
type Stream = Caller & {
  sink: EventSink
  cursor: EventSeq
  live: boolean
  open: boolean
  /** It catches up, or has not begun. */
  resuming: boolean
}

type HubStream = Omit<Subscription, 'renew'> & {
  /** Closes the stream because its token expired or was revoked. */
  end(): void
}

export class Hub {
  private readonly streams = new Map<string, Set<Stream>>()
  private count = 0
  /** Events published in this turn, by account. */
  private turn = new Map<string, EventWithText[]>()

  constructor(
    private readonly history: History,
    private readonly slices: Slices,
    /** Whether events may be pushed: a node without the right to answer may not know that a token was revoked. */
    private readonly mayPush: () => boolean,
  ) {}

  /**
   * Queues an event that is durable and recorded in the history. Delivery runs in a microtask, after the publishing
   * code and before its awaiting callers continue, so each stream gets one call per turn instead of one per event.
   */
  publish(account_id: string, event: AccountEvent, text: string): void {
    if (!this.streams.has(account_id)) return
    if (this.turn.size === 0) queueMicrotask(() => this.deliverTurn())
    const events = this.turn.get(account_id)
    if (events === undefined) this.turn.set(account_id, [{ event, text }])
    else events.push({ event, text })
  }

  /**
   * Throws `after_invalid` (ahead of the log), `connection_limit` and `socket_limit`. Without `after` the stream starts at the
   * newest event. Older events are read in slices.
   */
  subscribe(
    { access, account_id }: Caller,
    after: EventSeq | undefined,
    sink: EventSink,
    gap: (seq_from: EventSeq, seq_to: EventSeq) => void,
  ): HubStream {
    const seq_last = this.history.seqLast(account_id)
    const seq_first = this.history.seqFirst(account_id)
    if (after !== undefined && (!Number.isSafeInteger(after) || after < 0 || after > seq_last)) {
      throw new Refusal('after_invalid')
    }
    const stream: Stream = {
      account_id,
      access,
      sink,
      cursor: after ?? seq_last,
      live: false,
      open: true,
      resuming: true,
    }
    this.add(stream)
    setImmediate(() => this.start(stream, gap))
    return {
      seq_first,
      seq_last,
      seqNow: () => (this.mayPush() ? this.seqLast(stream) : undefined),
      close: () => this.remove(stream),
      end: () => {
        this.deliverTurn()
        if (!stream.open) return
        this.remove(stream)
        sink.ended()
      },
    }
  }

  /** Streams that events were held back from go on. */
  resume(): void {
    if (!this.mayPush()) return
    for (const streams of this.streams.values())
      for (const stream of streams) if (!stream.live && !stream.resuming) void this.catchUp(stream)
  }

  /** Closes every stream with a notice: the venue stops. */
  bye(reason: 'upgrade' | 'restart', retry_after_ms: number): void {
    this.deliverTurn()
    for (const streams of this.streams.values()) {
      for (const stream of [...streams]) {
        this.remove(stream)
        stream.sink.bye(reason, retry_after_ms)
      }
    }
  }

  size(): number {
    return this.count
  }

  private deliverTurn(): void {
    const { turn } = this
    if (turn.size === 0) return
    this.turn = new Map()
    const may_push = this.mayPush()
    for (const [account_id, events] of turn) {
      for (const stream of this.streams.get(account_id) ?? []) {
        if (stream.live && may_push) deliver(stream, events)
        else stream.live = false
      }
    }
  }

  private add(stream: Stream): void {
    const streams = this.streams.get(stream.account_id) ?? new Set<Stream>()
    const alike = [...streams].filter(({ access }) => access === stream.access).length
    if (alike >= LIMITS.account_streams_max) throw new Refusal('connection_limit')
    if (this.count >= LIMITS.streams_max) throw new Refusal('socket_limit')
    this.streams.set(stream.account_id, streams.add(stream))
    this.count++
  }

  private remove(stream: Stream): void {
    if (!stream.open) return
    stream.open = false
    this.count--
    const streams = this.streams.get(stream.account_id)!
    streams.delete(stream)
    if (streams.size === 0) this.streams.delete(stream.account_id)
  }

  /** Runs one turn after subscribe(), so that the caller has its subscription before the first event. */
  private start(stream: Stream, gap: (seq_from: EventSeq, seq_to: EventSeq) => void): void {
    this.reading(stream, () => {
      const seq_first = this.history.seqFirst(stream.account_id)
      if (stream.cursor >= seq_first - 1) return
      gap(stream.cursor + 1, seq_first - 1)
      stream.cursor = seq_first - 1
    })
    void this.catchUp(stream)
  }

  /** In slices, so that a long resume delays no other stream. The last one and the switch to live are one turn, without a gap. */
  private async catchUp(stream: Stream): Promise<void> {
    stream.resuming = true
    this.reading(stream, () => {
      stream.live = stream.cursor >= this.history.seqLast(stream.account_id)
    })
    while (stream.open && !stream.live && this.mayPush())
      await this.slices.run(stream, () => this.readOn(stream))
    stream.resuming = false
  }

  private readOn(stream: Stream): void {
    if (!this.mayPush()) return
    this.reading(stream, () => {
      const page = this.history.events(stream.account_id, stream.cursor, LIMITS.slice_rows)
      deliver(
        stream,
        page.items.map(({ text }) => ({ event: JSON.parse(text), text })),
      )
      stream.live = page.next_after === null
    })
  }

  /** Closes the stream with `restart` if the log cannot be read, because silence would look like no events. */
  private reading(stream: Stream, read: () => void): void {
    if (!stream.open) return
    try {
      read()
    } catch (error) {
      if (!(error instanceof HistoryBroken)) throw error
      this.remove(stream)
      stream.sink.bye('restart', LIMITS.restart_retry_after_ms)
    }
  }

  private seqLast(stream: Stream): EventSeq {
    let seq = stream.cursor
    this.reading(stream, () => {
      seq = this.history.seqLast(stream.account_id)
    })
    return seq
  }
}

/** Skips events up to the cursor, which the log already delivered. Streams that need all events share the list. */
function deliver(stream: Stream, events: readonly EventWithText[]): void {
  const last = events.at(-1)?.event.seq
  if (!stream.open || last === undefined || last <= stream.cursor) return
  const { cursor } = stream
  stream.cursor = last
  stream.sink.events(
    events[0]!.event.seq > cursor ? events : events.filter(({ event }) => event.seq > cursor),
  )
}

/**
 * Subscribes for a session: the stream ends with the session's token unless it is renewed with a newer one. Throws
 * `after_invalid`, `connection_limit` and `socket_limit`.
 */
export async function subscribe(
  hub: Hub,
  accounts: AccountsPort,
  session: Session,
  after: EventSeq | undefined,
  sink: EventSink,
  gap: (seq_from: EventSeq, seq_to: EventSeq) => void,
): Promise<Subscription> {
  const { end, close, ...stream } = hub.subscribe(session, after, sink, gap)
  let stopListening = accounts.onEnded(session.token_id, end)
  return {
    ...stream,
    renew: (renewed) => {
      stopListening()
      stopListening = accounts.onEnded(renewed.token_id, end)
    },
    close: () => {
      stopListening()
      close()
    },
  }
}
