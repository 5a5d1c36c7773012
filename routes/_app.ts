/** The venue's HTTP and WebSocket face as one fetch function; listening is `_listen.ts`. */
import type { Enclave } from '../enclave/contract'
import type { ClockPort } from '../engine/ports'
import type { Venue } from '../engine/venue'
import { Refusal } from '../protocol/refusals'
import { baseApp } from './_base'
import type { Documents } from './_documents'
import { isHostUsable, requestId } from './_headers'
import type { Log } from './_log'
import { MANIFEST } from './_manifest.gen'
import { type Meters, openMeters } from './_meters'
import { mount } from './_mount'
import { problemResponse } from './_problem'
import { openQuoteBuckets } from './_rate'
import type { Services } from './_services'
import { openSockets, type Sockets } from './_sockets'
import type { Upgrader } from './_upgrade'

/** Every stream's path begins so. */
const STREAMS = '/ws/'

export type AppOptions = {
  version: string
  clock: ClockPort
  log: Log
  /** The reference pages; left out where the origin does not serve them. */
  documents?: Documents
  /** Whether kept texts are checked before they are sent. For tests: a list costs more to check than to answer. */
  checks_texts?: boolean
  sockets_max?: number
  sockets_per_account_max?: number
}
export type App = {
  /** `server` is the listener the request came to; without it sockets answer 426. */
  fetch(request: Request, server?: Upgrader): Response | Promise<Response>
  readonly sockets: Sockets
  readonly meters: Meters
  readonly log: Log
  close(): void
}

export function createApp(args: { venue: Venue; enclave: Enclave; options: AppOptions }): App {
  const { venue, enclave, options } = args
  const { clock, log } = options
  const meters = openMeters()
  const sockets = openSockets({
    sockets_max: options.sockets_max ?? 10_000,
    sockets_per_account_max: options.sockets_per_account_max ?? 64,
    monotonicMs: () => clock.monotonicMs(),
    meters,
  })
  const services: Services = {
    venue,
    enclave,
    clock,
    log,
    meters,
    sockets,
    quotes: openQuoteBuckets(clock),
    documents: options.documents,
    checks_texts: options.checks_texts ?? false,
    version: options.version,
    started_ms: clock.monotonicMs(),
  }
  const servers = new WeakMap<Request, Upgrader>()
  const app = baseApp(services)
  mount(app, MANIFEST, services, (request) => servers.get(request))
  app.compile()
  return {
    fetch(request, server) {
      if (!isHostUsable(request)) {
        return problemResponse(new Refusal('field_invalid', { field: 'host' }), requestId(request), meters)
      }
      // Only a stream asks for its server; looking for a header would cost every other request.
      if (server !== undefined && request.url.includes(STREAMS)) servers.set(request, server)
      return app.fetch(request)
    },
    sockets,
    meters,
    log,
    close: () => sockets.stop(),
  }
}
