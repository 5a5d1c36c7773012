/** Serves the operator, never on the public port: signed calls, metrics (by a scrape token too) and the reference. */

import type { ClockPort } from '../../engine/ports'
import type { NodeVenue } from '../../engine/venue'
import { Refusal } from '../../protocol/refusals'
import { AdmissionRequest, CredentialRequest } from '../../protocol/wire/accounts'
import { Activation, ExportRequest, InstrumentChange, ReferencePrice } from '../../protocol/wire/trading'
import { parserOf } from '../../protocol/wire/values'
import type { App } from '../edge/app'
import { parseBody, readBounded } from '../edge/body'
import { commonHeaders, REFERENCE_POLICY, refusalOfHead, requestId } from '../edge/headers'
import type { Log } from '../edge/log'
import {
  expiryMetrics,
  openDelayed,
  openMeters,
  PROMETHEUS_TYPE,
  processMetrics,
  prometheusText,
} from '../edge/meters'
import { problemResponse, refusalOf } from '../edge/problem'
import type { Documents } from '../edge/services'
import { LINK_BYTES_MAX } from '../limits'
import type { SocketData } from '../sockets/upgrade'

type OperatorParts = {
  venue: NodeVenue
  log: Log
  clock: Pick<ClockPort, 'monotonicMs'>
  documents: Documents
  /** Throws `operator_signature_invalid` unless the operator signed exactly this call recently and it is no replay. */
  check(call: OperatorCall): void
  /** The public app, whose counters `/metrics` reports. */
  app: Pick<App, 'meters'>
  /** Ends of the served certificate and of the kept collateral. */
  ends(): Parameters<typeof expiryMetrics>[0]
  /** Starts the shutdown; returns at once. */
  drain(): void
  /** For a node of a cluster: by method and path, the answers without a signature. Bodies have up to LINK_BYTES_MAX. */
  node?: NodeCalls
  /** For a node of a cluster: the connection on which another one passes requests on. */
  stream?: () => SocketData
  /** For a node that follows: the leading one answers requests that concern more than this process. */
  pass?: (request: Request, body: Uint8Array) => Promise<Response>
}
type OperatorCall = {
  method: string
  /** Path with query, as in the request line. */
  target: string
  body: Uint8Array
  header(name: string): string | null
}
const parsePrice = parserOf(ReferencePrice)
const parseChange = parserOf(InstrumentChange)
const parseActivation = parserOf(Activation)
const parseAdmission = parserOf(AdmissionRequest)
const parseExport = parserOf(ExportRequest)
const parseCredential = parserOf(CredentialRequest)

const STREAM_PATH = '/links/stream'
/** Calls that each node answers for itself. */
const OF_PROCESS = ['/drain', '/metrics']
export type NodeCalls = ReadonlyMap<string, (body: Uint8Array) => Promise<object> | object>
type Operation = (request: Request, body: Uint8Array) => Promise<Response> | Response

export function operatorApp(parts: OperatorParts): Pick<App, 'fetch'> {
  const { log, check, node, pass, stream } = parts
  const operations = operationsOf(parts)
  const pages = pagesOf(parts.documents)
  // Separate from the public counters, which count clients only.
  const meters = openMeters()
  return {
    async fetch(request, server) {
      const request_id = requestId(request)
      // The runtime passes on hosts that no URL has.
      const url = URL.canParse(request.url) ? new URL(request.url) : undefined
      const { pathname, search } = url ?? { pathname: '', search: '' }
      try {
        if (url === undefined) throw new Refusal('field_invalid', { field: 'host' })
        const unusable = refusalOfHead(request)
        if (unusable !== undefined) throw unusable
        const page = pages[pathname]
        if (page !== undefined && request.method === 'GET') return page()
        if (stream !== undefined && pathname === STREAM_PATH) {
          if (server?.upgrade(request, { data: stream(), headers: {} }) !== true)
            throw new Refusal('upgrade_required')
          // The runtime ignores the answer of an upgraded request.
          return new Response(null)
        }
        const call = node?.get(`${request.method} ${pathname}`)
        if (call !== undefined) {
          const answer = await call(await readBounded(request, LINK_BYTES_MAX))
          if (!(answer instanceof Uint8Array)) return json(request, 200, answer)
          const headers = { ...commonHeaders(request_id), 'content-type': 'application/octet-stream' }
          return new Response(new Uint8Array(answer), { headers })
        }
        if (page === undefined && methodsOf(operations, pathname).length === 0)
          throw new Refusal('route_unknown')
        const operation = operations.get(`${request.method} ${pathname}`)
        if (operation === undefined) throw new Refusal('method_not_allowed')
        const body = await readBounded(request)
        const header = (name: string) => request.headers.get(name)
        check({ method: request.method, target: pathname + search, body, header })
        if (pass !== undefined && !OF_PROCESS.includes(pathname)) return await pass(request, body)
        return await operation(request, body)
      } catch (error) {
        const refusal = refusalOf(error, log, { request_id, route: `operator ${request.method}` })
        const allow = methodsOf(operations, pathname).join(', ') || 'GET'
        const headers = {
          ...(refusal.status === 405 ? { allow } : {}),
          ...(refusal.status === 401 ? { 'www-authenticate': 'Tacit-Operator' } : {}),
        }
        return problemResponse(refusal, request_id, meters, headers)
      }
    },
  }
}

/** By method and path. */
function operationsOf({ venue, app, clock, log, drain, ends }: OperatorParts): Map<string, Operation> {
  const delayed = openDelayed(clock)
  return new Map<string, Operation>([
    ['GET /accounts', async (request) => json(request, 200, { items: await venue.listAccounts() })],
    [
      'POST /accounts',
      async (request, body) => {
        const applied = await venue.admit(parseAdmission(parseBody(request, body)))
        log.write('info', 'account_record_applied')
        return json(request, 200, applied)
      },
    ],
    [
      'POST /accounts/credentials',
      async (request, body) => {
        const set = await venue.setCredential(undefined, parseCredential(parseBody(request, body)))
        log.write('info', 'credential_applied')
        return json(request, 200, set)
      },
    ],
    [
      'POST /references',
      async (request, body) =>
        json(request, 200, await venue.postReference(parsePrice(parseBody(request, body)))),
    ],
    [
      'POST /exports',
      async (request, body) => {
        const file = await venue.exportBatch(parseExport(parseBody(request, body)))
        log.write('info', 'batch_exported')
        const headers = { ...commonHeaders(requestId(request)), 'content-type': 'application/octet-stream' }
        return new Response(file, { headers })
      },
    ],
    [
      'POST /instruments',
      async (request, body) => {
        const changed = await venue.changeInstrument(parseChange(parseBody(request, body)))
        log.write('info', 'instrument_changed')
        return json(request, 200, changed)
      },
    ],
    [
      'POST /activate',
      async (request, body) => {
        const active = await venue.activate(parseActivation(parseBody(request, body)))
        log.write('info', 'version_active', { code: `${active.version}` })
        return json(request, 200, active)
      },
    ],
    [
      'POST /drain',
      (request) => {
        drain()
        return json(request, 202, { draining: true })
      },
    ],
    [
      'GET /metrics',
      (request) => {
        const counted = delayed([...venue.metrics(), ...app.meters.read()])
        const rows = [...counted, ...expiryMetrics(ends()), ...processMetrics()]
        return text(request, PROMETHEUS_TYPE, prometheusText(rows))
      },
    ],
  ])
}

function methodsOf(operations: ReadonlyMap<string, Operation>, path: string): string[] {
  return [...operations.keys()].flatMap((name) => {
    const [method, of] = name.split(' ')
    return of === path ? method! : []
  })
}

function json(request: Request, status: number, value: unknown): Response {
  const headers = { ...commonHeaders(requestId(request)), 'content-type': 'application/json' }
  return new Response(JSON.stringify(value), { status, headers })
}

function text(request: Request, content_type: string, body: string): Response {
  return new Response(body, {
    headers: { ...commonHeaders(requestId(request)), 'content-type': content_type },
  })
}

function pagesOf(documents: Documents): Record<string, () => Response> {
  const page = (type: string, body: string) => () =>
    new Response(body, { headers: { 'content-type': type, 'content-security-policy': REFERENCE_POLICY } })
  return {
    __proto__: null,
    '/swagger': page('text/html; charset=utf-8', documents.html),
    '/swagger/json': page('application/json', documents.json),
    '/swagger/style.css': page('text/css; charset=utf-8', documents.css),
  } as unknown as Record<string, () => Response>
}
