/** Declares the services that every handler receives: the venue, the enclave and the state of the edge. */

import type { Enclave } from '../../enclave/contract'
import type { ClockPort } from '../../engine/ports'
import type { NodeVenue, Session } from '../../engine/venue'
import type { Attestation, Info, Leader, SystemStatus } from '../../protocol/wire/trading'
import type { KnownUrls } from './answer'
import type { Log } from './log'
import type { Meters } from './meters'
import type { QuoteBuckets } from './rate'
import type { Shared } from './shared_quotes'

export type Services = {
  readonly venue: NodeVenue
  readonly enclave: Enclave
  readonly clock: ClockPort
  readonly log: Log
  readonly meters: Meters
  readonly quotes: QuoteBuckets
  /** The answer of `/info`. */
  info(): Info
  /** As the enclave's, with a quote that the callers of a moment share. */
  attestation(nonce?: string): Promise<Attestation | Shared<Attestation>>
  /** As `info` and the enclave's attestation, of the node that leads. @throws Refusal `lease_lost` while it is not reached */
  leader(nonce?: string): Promise<Leader | Shared<Leader>>
  readonly sockets: Sockets
  readonly urls: KnownUrls
  /** Undefined where the origin does not serve the reference. */
  readonly documents: Documents | undefined
  /** Whether JSON texts from the engine are also validated against the contract before they are sent. */
  readonly checks_texts: boolean
  /** Begins the names of this node's sockets; empty without a cluster. */
  readonly node: string
  /** Monotonic milliseconds at which the app was created. */
  readonly started_ms: number
}

/** The reference document and its page, as they are sent. */
export type Documents = {
  json: string
  html: string
  css: string
  streams: string
  index: string
  /** Pages of `docs/` and their Markdown, by name. */
  files: ReadonlyMap<string, { content_type: string; body: string }>
}

/** The open sockets of the process. */
export interface Sockets {
  /** Reserves a place before the upgrade; the returned function releases it once. Throws `connection_limit` and `socket_limit`. */
  reserve(session: Session): () => void
  add(socket: OpenSocket): void
  remove(socket: OpenSocket): void
  count(): number
  /** Sends heartbeats, warnings and changes of readiness and closes expired sockets; the timer calls it each second. */
  tick(): void
  /** Sends `bye` to every socket and closes it. */
  byeAll(reason: 'upgrade' | 'restart', retry_after_ms: number): void
  stop(): void
}

export interface OpenSocket {
  /** `now_ms` is monotonic. */
  tick(now_ms: number): void
  status(status: SystemStatus): void
  bye(reason: 'upgrade' | 'restart', retry_after_ms: number): void
}
