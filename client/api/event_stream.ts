/** Follows an account's events over a socket and resumes by seq after every disconnect. */

import { MustStop } from '../../protocol/tacit_error'
import type { AccountEvent } from '../../protocol/wire/trading'
import { STREAM_HEARTBEAT_MS, STREAM_RETRY_FIRST_MS, STREAM_RETRY_MAX_MS, STREAM_SILENCE_MS } from '../limits'
import { type VenueClient, VenueProblem } from './venue_client'

type Frame =
  | ({ type: 'event' } & AccountEvent)
  | { type: 'gap'; seq_from: number; seq_to: number }
  | { type: 'hello'; heartbeat_ms: number }
  | { type: 'heartbeat'; seq: number }
  | { type: 'snapshot' | 'status' | 'bye' | 'reply' | 'error' | 'warning' }

/** `seq` is that of the last event whose handler succeeded; `close` ends the stream. */
export type EventStream = { readonly seq: number; close(): void }
export type EventStreamHandlers = {
  /** The next event follows once this one has succeeded; one that throws ends the stream, which has not moved past it. */
  event(event: AccountEvent): void | Promise<void>
  /**
   * The venue no longer retains these events: read the state over REST. Without it a gap ends the stream. The position moves
   * with the next event; on a connection that comes before it, the venue names its gap again.
   */
  gap?(seq_from: number, seq_to: number): void | Promise<void>
  /** Reports the connection; the stream reconnects on its own. */
  connection?(connected: boolean): void
  /** The stream has ended for a reason that no reconnecting repairs; without it the reason is an unhandled error. */
  ended?(reason: unknown): void
}

/** Events were left out between two that came, or are no longer retained; from then on nothing is handed out. */
export class EventsMissing extends MustStop<{ seq_from: number; seq_to: number }> {
  override readonly name = 'EventsMissing'
  readonly code = 'events_missing'
  constructor(seq_from: number, seq_to: number) {
    super(`the venue does not tell the events ${seq_from} to ${seq_to} of this account`, { seq_from, seq_to })
  }
}

/** Refusals of a login that no later attempt changes. */
const LOGIN_REFUSED: ReadonlySet<string> = new Set(['credentials_invalid', 'credential_expired', 'read_only'])

/** Whether repeating a call cannot help: the login is rejected, or the venue or its account is not the one expected. */
export function endsTrading(error: unknown): boolean {
  return error instanceof MustStop || (error instanceof VenueProblem && LOGIN_REFUSED.has(error.code))
}

/**
 * Opens `/ws/trading`, which carries every event of the account in one order, after seq `after`. No event is handed out
 * twice, none is left out, and a socket that is silent for two heartbeats is opened again.
 */
export function followEvents(client: VenueClient, after: number, handlers: EventStreamHandlers): EventStream {
  return new Follower(client, after, handlers)
}

class Follower implements EventStream {
  private closed = false
  private socket: WebSocket | undefined
  private wait_ms = STREAM_RETRY_FIRST_MS
  /** End of the gap that the present socket named: the position moves once an event follows it. */
  private gap_to = 0
  /** Frames are handled one at a time: the next one waits for the handler. */
  private handled: Promise<void> = Promise.resolve()

  constructor(
    private readonly client: VenueClient,
    public seq: number,
    private readonly handlers: EventStreamHandlers,
  ) {
    void this.open()
  }
  close(): void {
    this.closed = true
    this.socket?.close()
  }

  private end(reason: unknown): void {
    if (this.closed) return
    this.close()
    if (this.handlers.ended === undefined) throw reason
    this.handlers.ended(reason)
  }
  /** The position moves once the handler has succeeded. @throws EventsMissing, or the handler's error */
  private async receive(frame: Frame): Promise<void> {
    if (this.closed) return
    const at = Math.max(this.seq, this.gap_to)
    if (frame.type === 'gap' && frame.seq_to > at) {
      if (this.handlers.gap === undefined) throw new EventsMissing(at + 1, frame.seq_to)
      await this.handlers.gap(at + 1, frame.seq_to)
      this.gap_to = frame.seq_to
    }
    if (frame.type !== 'event' || frame.seq <= this.seq) return
    // An event from within the gap contradicts it: a gap of any length would else hide all that follow.
    if (frame.seq <= at) throw new EventsMissing(this.seq + 1, at)
    if (frame.seq !== at + 1) throw new EventsMissing(at + 1, frame.seq - 1)
    const { seq, kind, slot, unix_ms, data } = frame
    await this.handlers.event({ seq, kind, slot, unix_ms, data })
    this.seq = seq
    this.wait_ms = STREAM_RETRY_FIRST_MS
  }
  private retry(): void {
    if (this.closed) return
    setTimeout(() => void this.open(), this.wait_ms)
    this.wait_ms = Math.min(this.wait_ms * 2, STREAM_RETRY_MAX_MS)
  }
  private async open(): Promise<void> {
    let token: string
    try {
      await this.client.transport.look?.()
      token = await this.client.token()
    } catch (error) {
      if (endsTrading(error)) this.end(error)
      this.retry()
      return
    }
    // Events of the previous socket are handled first: the venue is asked for the events after them.
    await this.handled
    this.gap_to = 0
    if (!this.closed)
      this.listen(this.client.transport.webSocket(`/ws/trading?token=${token}&after=${this.seq}`), token)
  }
  private listen(socket: WebSocket, token: string): void {
    this.socket = socket
    let opened_ms: number | undefined
    let heartbeat_ms = STREAM_HEARTBEAT_MS
    let silent: ReturnType<typeof setTimeout> | undefined
    // A heartbeat names the newest event: one that has not come by the next, while none came, is lost.
    let [received, received_before, promised] = [this.seq, -1, 0]
    const over = (): void => {
      clearTimeout(silent)
      if (this.socket !== socket) return
      this.socket = undefined
      // The reason of a rejected upgrade is not visible; an ended token is the only one that a retry cannot repair.
      if (opened_ms === undefined) this.client.forget(token)
      // A socket that closes at once is no progress: the wait before the next one grows.
      else if (performance.now() - opened_ms > STREAM_RETRY_MAX_MS) this.wait_ms = STREAM_RETRY_FIRST_MS
      if (!this.closed) this.handlers.connection?.(false)
      this.retry()
    }
    const heard = (): void => {
      clearTimeout(silent)
      const dead = () => {
        socket.close()
        over()
      }
      silent = setTimeout(dead, 2 * heartbeat_ms + STREAM_SILENCE_MS)
    }
    heard()
    socket.onopen = () => {
      opened_ms = performance.now()
      this.handlers.connection?.(true)
    }
    socket.onmessage = ({ data }) => {
      const frame = parsed(data)
      if (frame === undefined) return socket.close()
      heard()
      if (frame.type === 'hello') heartbeat_ms = frame.heartbeat_ms
      if (frame.type === 'event') received = frame.seq
      if (frame.type === 'gap') received = frame.seq_to
      if (frame.type === 'heartbeat') {
        if (frame.seq < received) return this.end(new EventsMissing(frame.seq + 1, received))
        if (received < promised && received === received_before) return socket.close()
        ;[received_before, promised] = [received, frame.seq]
      } else this.handled = this.handled.then(() => this.receive(frame)).catch((error) => this.end(error))
    }
    socket.onclose = over
  }
}

function parsed(data: unknown): Frame | undefined {
  try {
    const frame: unknown = JSON.parse(String(data))
    return typeof frame === 'object' && frame !== null ? (frame as Frame) : undefined
  } catch {
    return undefined
  }
}
