/** Builds the venue's HTTP and WebSocket interface as one fetch function: Elysia routes requests to the manifest's routes. */

import { Elysia } from 'elysia'
import type { Enclave } from '../../enclave/contract'
import type { ClockPort } from '../../engine/ports'
import type { NodeVenue } from '../../engine/venue'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { Leader } from '../../protocol/wire/public'
import { ACCOUNT_SOCKETS_MAX, SHARED_QUOTE_MS, SOCKETS_MAX } from '../limits'
import { MANIFEST } from '../manifest'
import { openSockets, type Upgrader, upgrading } from '../sockets/upgrade'
import { type Answering, answering, KnownUrls } from './answer'
import type { MountedRoute } from './endpoint'
import { commonHeaders, refusalOfHead, requestId } from './headers'
import type { Log } from './log'
import { type Meters, openMeters } from './meters'
import { problemResponse, refusalOf } from './problem'
import { openQuoteBuckets } from './rate'
import type { Documents, Services, Sockets } from './services'
import { leaderOf, SharedQuotes, withPath } from './shared_quotes'

export type AppOptions = {
  /** Of the build, from package.json. */
  version: string
  clock: ClockPort
  log: Log
  /** Absent where the origin does not serve the reference. */
  documents?: Documents
  /** Default false: validating the text of a list costs more than answering it. */
  checks_texts?: boolean
  /** Asks the node that leads; undefined on that node. */
  leader?: () => Services['leader'] | undefined
  /** Begins the names of the sockets; by default of this app. */
  node?: string
  sockets_max?: number
  sockets_per_account_max?: number
}
export type App = {
  /** As the route, for a node that follows. */
  leader(nonce?: string): Promise<Leader>
  /** `server` is the listener that received the request; without it streams answer 426. */
  fetch(request: Request, server?: Upgrader): Response | Promise<Response>
  readonly sockets: Sockets
  readonly meters: Meters
  readonly log: Log
  close(): void
}

/** Begins the names of the sockets of one process. */
export const nodeName = (): string => `${toHex(crypto.getRandomValues(new Uint8Array(8)))}.`

/** Prefix of the path of every stream. */
const STREAM_PREFIX = '/ws/'

/** @param elsewhere asks the node that leads; undefined on that node */
function attestationsOf(enclave: Enclave, info: () => Leader['info'], elsewhere: AppOptions['leader']) {
  const quotes = new SharedQuotes(
    async (nonce) => {
      const attestation = withPath(await enclave.attestation(nonce, true))
      let shown: Leader | undefined
      return { attestation, leader: () => (shown ??= Object.freeze({ info: info(), attestation })) }
    },
    (answered) => Promise.all([answered, Bun.sleep(SHARED_QUOTE_MS)]),
  )
  return {
    attestation: async (nonce?: string) =>
      nonce === undefined ? enclave.attestation() : (await quotes.ask(nonce)).of((one) => one.attestation),
    /** @param is_node asked for all callers of a node that follows */
    leader: async (nonce?: string, is_node = false) => {
      const other = elsewhere?.()
      if (other !== undefined) return other(nonce)
      if (nonce === undefined) return { info: info(), attestation: await enclave.attestation() }
      return (await quotes.ask(nonce, is_node)).of((one) => one.leader())
    },
  }
}

export function createApp(args: { venue: NodeVenue; enclave: Enclave; options: AppOptions }): App {
  const { venue, enclave, options } = args
  const { clock, log } = options
  const meters = openMeters()
  const sockets = openSockets({
    sockets_max: options.sockets_max ?? SOCKETS_MAX,
    sockets_per_account_max: options.sockets_per_account_max ?? ACCOUNT_SOCKETS_MAX,
    monotonicMs: () => clock.monotonicMs(),
    status: () => venue.status(),
    meters,
  })
  const info = () => ({
    app_id: enclave.identity.app_id,
    instance_id: enclave.identity.instance_id,
    compose_hash: enclave.identity.compose_hash,
    tee_pubkey: encodeBase58(enclave.identity.tee_pubkey),
    tacit_version: options.version,
    ...venue.identity(),
  })
  const { attestation, leader } = attestationsOf(enclave, info, options.leader)
  const services: Services = {
    info,
    attestation,
    leader,
    venue,
    enclave,
    clock,
    log,
    meters,
    sockets,
    urls: new KnownUrls(),
    quotes: openQuoteBuckets(clock),
    documents: options.documents,
    checks_texts: options.checks_texts ?? false,
    node: options.node ?? nodeName(),
    started_ms: clock.monotonicMs(),
  }
  const servers = new WeakMap<Request, Upgrader>()
  const app = baseApp(services)
  mount(app, MANIFEST, services, (request) => servers.get(request))
  app.compile()
  return {
    fetch(request, server) {
      const known = services.urls.get(request)
      const unusable = refusalOfHead(request, known !== undefined)
      if (unusable !== undefined) return problemResponse(unusable, requestId(request), meters)
      if (known !== undefined) return known.answers.answer({ request, said: known.said })
      // Only streams need their server. The path is tested because reading a header would slow every other request.
      if (server !== undefined && request.url.includes(STREAM_PREFIX)) servers.set(request, server)
      return app.fetch(request)
    },
    sockets,
    meters,
    log,
    leader: async (nonce) => leaderOf(await leader(nonce, true)),
    close: () => sockets.stop(),
  }
}

/**
 * Settings of the router:
 * - `standardHostname` stays on: without it the path of an https URL would begin at the second slash. It assumes a host
 *   of some length, which `refusalOfHead` checks.
 * - `strictPath`: `/health/` and `/health` are different paths.
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

/** Mounts the routes, and for each path an answer to all other methods. */
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
    // A bound function has no source text. Elysia would await a handler whose text returns a call, which slows every answer.
    app.route(method.toUpperCase(), routerPath(path), answer.bind(undefined))
  }
  for (const [path, taken] of methods) {
    const answer = otherMethods(taken, services)
    app.all(routerPath(path), answer)
  }
}

/** `/orders/{order_id}` becomes `/orders/:order_id`. */
function routerPath(path: string): string {
  return path.replace(/\{([^}]+)\}/g, ':$1')
}

/**
 * Answers the methods that a path does not have: OPTIONS with `Allow`, others with 405 before any token is checked.
 * `methods` are those of the path's route files, in lower case.
 */
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
