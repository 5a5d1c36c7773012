/** What every handler is given besides its request: the venue, the enclave and the edge's own state. */
import type { Enclave } from '../../enclave/contract'
import type { ClockPort } from '../../engine/ports'
import type { Venue } from '../../engine/venue'
import type { Documents } from '../reference/page'
import type { Sockets } from '../sockets/upgrade'
import type { Log } from './log'
import type { Meters } from './meters'
import type { QuoteBuckets } from './rate'

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
