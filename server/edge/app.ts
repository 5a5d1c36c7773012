/** The venue's HTTP and WebSocket face as one fetch function: routes mounted on Elysia, every method answered. */

import { Elysia } from 'elysia'
import type { Enclave } from '../../enclave/contract'
import type { ClockPort } from '../../engine/ports'
import type { Venue } from '../../engine/venue'
import { Refusal } from '../../protocol/refusals'
import { ACCOUNT_SOCKETS_MAX, SOCKETS_MAX } from '../limits'
import { MANIFEST } from '../manifest'
import { openSockets, type Upgrader, upgrading } from '../sockets/upgrade'
import { type Answering, answering } from './answer'
import type { MountedRoute } from './endpoint'
import { commonHeaders, isHostUsable, requestId } from './headers'
import type { Log } from './log'
import { type Meters, openMeters } from './meters'
import { problemResponse, refusalOf } from './problem'
import { openQuoteBuckets } from './rate'
import type { Documents, Services, Sockets } from './services'

// The Elysia instance every route is mounted on, with the settings that are not its defaults.

/**
 * - `standardHostname` stays on: off, the path of an https URL would begin at its second slash. What it takes for granted,
 *   a host of some length, is checked by `isHostUsable`.
 * - `strictPath`: `/health/` is another path than `/health`.
 * - `normalize: false` and `aot`: nothing is rewritten, and errors keep their status.
 */
export function baseApp(services: Services) {
  return new Elysia({
    normalize: false,
    strictPath: true,
    aot: true,
  }).onError({ as: 'global' }, ({ code, error, request }) => {
    const request_id = requestId(request)
    const refusal =
      code === 'NOT_FOUND' ? new Refusal('route_unknown') : refusalOf(error, services.log, { request_id })
    return problemResponse(refusal, request_id, services.meters)
  })
}
type BaseApp = ReturnType<typeof baseApp>

// What a path answers to the methods it does not take: 405 before any token is looked at, and OPTIONS with `Allow`.

/** `methods` are those of the path's route files, lower case. */
function otherMethods(methods: readonly string[], services: Services): Answering {
  const taken = methods.map((method) => method.toUpperCase())
  const allow = [...new Set([...taken, ...(taken.includes('GET') ? ['HEAD'] : []), 'OPTIONS'])]
    .sort()
    .join(', ')
  return async ({ request }) => {
    const request_id = requestId(request)
    if (request.method === 'OPTIONS') {
      return new Response(null, { status: 204, headers: { ...commonHeaders(request_id), allow } })
    }
    return problemResponse(new Refusal('method_not_allowed'), request_id, services.meters, { allow })
  }
}

// Mounts the route files of the manifest on an Elysia app, each path with an answer for every method.

export function mount(
  app: BaseApp,
  manifest: readonly MountedRoute[],
  services: Services,
  upgraderOf: (request: Request) => Upgrader | undefined,
): void {
  const methods = new Map<string, string[]>()
  for (const { method, path, route } of manifest) {
    methods.set(path, [...(methods.get(path) ?? []), method])
    const template = `${method.toUpperCase()} ${path}`
    const answer =
      route.kind === 'stream'
        ? upgrading(route, services, template, upgraderOf)
        : answering(route, services, template)
    // Bound, so that it has no text: Elysia awaits what looks like a call behind `return`, and every answer would wait.
    app.route(method.toUpperCase(), routerPath(path), answer.bind(undefined))
  }
  for (const [path, taken] of methods) {
    const answer = otherMethods(taken, services)
    app.all(routerPath(path), answer)
  }
}

/** `/orders/{order_id}` is `/orders/:order_id` to the router. */
function routerPath(path: string): string {
  return path.replace(/\{([^}]+)\}/g, ':$1')
}

// The venue's HTTP and WebSocket face as one fetch function; `server/tls/listen.ts` listens.

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
    sockets_max: options.sockets_max ?? SOCKETS_MAX,
    sockets_per_account_max: options.sockets_per_account_max ?? ACCOUNT_SOCKETS_MAX,
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
