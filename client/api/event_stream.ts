/** Follows an account's events over a socket and resumes by seq after every disconnect. */
import type { AccountEvent } from '../../protocol/wire/trading'
import { STREAM_RETRY_FIRST_MS, STREAM_RETRY_MAX_MS } from '../limits'
import type { VenueClient } from './venue_client'

type Frame =
  | ({ type: 'event' } & AccountEvent)
  | { type: 'gap'; seq_from: number; seq_to: number }
  | { type: 'hello' | 'snapshot' | 'heartbeat' | 'status' | 'bye' | 'reply' | 'error' }

/** `seq` is that of the last event handed out; `close` ends the stream. */
export type EventStream = { readonly seq: number; close(): void }
export type EventStreamHandlers = {
  event(event: AccountEvent): void
  /** The venue no longer retains these events: read the state over REST. */
  gap?(seq_from: number, seq_to: number): void
  /** Reports the connection; the stream reconnects on its own. */
  connection?(connected: boolean): void
}

/**
 * Opens `/ws/trading`, which carries every event of the account in one order, after seq `after`. No event is handed out
 * twice. Handlers must not throw: the position moves before they run.
 */
export function followEvents(client: VenueClient, after: number, handlers: EventStreamHandlers): EventStream {
  let seq = after
  let closed = false
  let socket: WebSocket | undefined
  let wait_ms = STREAM_RETRY_FIRST_MS

  const receive = (frame: Frame): void => {
    if (frame.type === 'gap') {
      seq = Math.max(seq, frame.seq_to)
      handlers.gap?.(frame.seq_from, frame.seq_to)
    }
    if (frame.type !== 'event' || frame.seq <= seq) return
    seq = frame.seq
    const { kind, slot, unix_ms, data } = frame
    handlers.event({ seq, kind, slot, unix_ms, data })
  }
  const retry = (): void => {
    if (closed) return
    setTimeout(open, wait_ms)
    wait_ms = Math.min(wait_ms * 2, STREAM_RETRY_MAX_MS)
  }
  const open = async (): Promise<void> => {
    const token = await client.token().catch(() => undefined)
    if (closed) return
    if (token === undefined) return retry()
    socket = client.transport.webSocket(`/ws/trading?token=${token}&after=${seq}`)
    let opened = false
    socket.onopen = () => {
      opened = true
      wait_ms = STREAM_RETRY_FIRST_MS
      handlers.connection?.(true)
    }
    socket.onmessage = (message) => receive(JSON.parse(String(message.data)) as Frame)
    socket.onclose = () => {
      // The reason of a rejected upgrade is not visible; a dead token is the one that no retry repairs.
      if (!opened) client.forget(token)
      handlers.connection?.(false)
      retry()
    }
  }
  void open()
  return {
    get seq() {
      return seq
    },
    close() {
      closed = true
      socket?.close()
    },
  }
}
