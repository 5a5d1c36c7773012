/** The services of a handler: the venue, the enclave and the state of the edge. */
import type { Enclave } from '../../enclave/contract'
import type { ClockPort } from '../../engine/ports'
import type { Session, Venue } from '../../engine/venue'
import type { Log } from './log'
import type { Meters } from './meters'
import type { QuoteBuckets } from './rate'

/** The reference document and its page, as they are sent. */
export type Documents = { json: string; html: string; css: string }

export interface OpenSocket {
  /** Heartbeat, warnings and expiry as of now. */
  tick(now_ms: number): void
  bye(reason: 'upgrade' | 'restart', retry_after_ms: number): void
}

/** The open sockets of the process. */
export interface Sockets {
  /** Reserves a place before the upgrade; throws `connection_limit`. The returned function gives it back, once. */
  reserve(session: Session): () => void
  add(socket: OpenSocket): void
  remove(socket: OpenSocket): void
  count(): number
  /** Heartbeats, warnings and expiries as of now; the timer calls it each second. */
  tick(): void
  /** Sends `bye` to every socket and closes it. */
  byeAll(reason: 'upgrade' | 'restart', retry_after_ms: number): void
  stop(): void
}

export type Services = {
  readonly venue: Venue
  readonly enclave: Enclave
  readonly clock: ClockPort
  readonly log: Log
  readonly meters: Meters
  readonly quotes: QuoteBuckets
  readonly sockets: Sockets
  /** The reference pages; undefined where the origin does not serve them. */
  readonly documents: Documents | undefined
  /** Texts the engine keeps are checked against the document as well, each time one is sent. */
  readonly checks_texts: boolean
  /** Build version, the package's. */
  readonly version: string
  /** Milliseconds on the monotonic clock at which the process began. */
  readonly started_ms: number
}
