/** Answers one request of an endpoint in the published order: token, limit, size, parse, handler. */
import type { TArray, TObject, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import type { NodeVenue, Session } from '../../engine/venue'
import { NOT_LEADING, Refusal, type RefusalCode } from '../../protocol/refusals'
import { parserOf } from '../../protocol/wire/parse'
import { exact } from '../../protocol/wire/values'
import { QUERIES_KEPT_MAX, QUERY_CHARACTERS_KEPT_MAX } from '../limits'
import { parseBody, readBounded, readQuery } from './body'
import { declaredRefusals } from './declared'
import type { Contract, Endpoint, Text } from './endpoint'
import { commonHeaders, type HeaderMap, requestId } from './headers'
import { problemResponse, refusalOf } from './problem'
import { limitHeaders } from './rate'
import type { Services } from './services'

/** A request from the router; `params` are those of the path, absent where it has none. */
type Routed = { request: Request; params?: Record<string, string> }
export type Answering = (routed: Routed) => Response | Promise<Response>

/** Facts of one request that its answer and its log lines carry. */
type Exchange = {
  readonly request_id: string
  session: Session | undefined
  limits: HeaderMap | undefined
  /** The caller asked for CSV, and the endpoint has it. */
  readonly csv: boolean
}
type Caller = { readonly session: Session | undefined; readonly params: Record<string, string> }

/** `route` is the template written to logs, such as `GET /orders/{order_id}`. */
export function answering(endpoint: Endpoint, services: Services, route: string): Answering {
  const { contract } = endpoint
  const parts = partsOf(contract)
  const callOf = callsOf(services, parts)
  const reply = replyOf(contract, services, route)
  const declared = new Set(declaredRefusals(endpoint))
  const refuse = refusalsOf(endpoint, services, route, declared)
  const handler = endpoint.handler as (call: unknown) => unknown

  const finish = (value: unknown, exchange: Exchange): Response => {
    const response = reply(value, exchange)
    services.meters.answered()
    return response
  }
  const waited = async (work: () => Promise<unknown>, exchange: Exchange): Promise<Response> => {
    try {
      return finish(await work(), exchange)
    } catch (error) {
      return refuse(error, exchange)
    }
  }
  const withBody = (request: Request, params: Caller['params'], exchange: Exchange): Promise<Response> =>
    waited(async () => {
      const bytes = await readBounded(request)
      return acrossHandOver(services.venue, { request, declared }, () => {
        // A body can take its time: the token may have expired, or have been revoked, since it was looked at.
        const session = identify(contract, services, request)
        return handler(callOf(request, { session, params }, parseBody(request, bytes)))
      })
    }, exchange)
  /** Runs a handler and charges the rows that it read, which are known only now. */
  const read = (handle: () => unknown, exchange: Exchange): unknown => {
    if (exchange.limits === undefined) return handle()
    const before = services.venue.readUnits()
    const value = handle()
    const units = services.venue.readUnits() - before
    if (units > 0) exchange.limits = limitHeaders(services.venue.chargeRead(exchange.session!, units))
    return value
  }
  // Not async: a promise would add a large part to the cost of a read that has nothing to wait for.
  return ({ request, params = {} }) => {
    const csv = isCsv(contract, request)
    const exchange: Exchange = { request_id: requestId(request), session: undefined, limits: undefined, csv }
    const go = (): Response | Promise<Response> => {
      const session = identify(contract, services, request)
      exchange.session = session
      if (session !== undefined && contract.cost !== undefined)
        exchange.limits = limitHeaders(services.venue.takeLimit(session, contract.cost, limitedAs(contract)))
      if (parts.body !== undefined) return withBody(request, params, exchange)
      const late = session && services.venue.caughtUp(session.account_id, seqSeen(request))
      const handle = () => {
        const value = read(() => handler(callOf(request, { session, params }, undefined)), exchange)
        if (!(value instanceof Promise)) return finish(value, exchange)
        const again = () =>
          handler(callOf(request, { session: identify(contract, services, request), params }, undefined))
        const asked = { request, declared }
        return waited(() => acrossHandOver(services.venue, asked, () => value, again), exchange)
      }
      // Another node may lead after the wait, and the token have ended.
      return late === undefined
        ? handle()
        : late.then(() => identify(contract, services, request)).then(handle)
    }
    return retried(services.venue, { request, declared }, go, (error) => refuse(error, exchange))
  }
}

const isCsv = ({ answer }: Contract, { headers }: Request): boolean =>
  'csv' in answer && answer.csv !== undefined && /\btext\/csv\b/i.test(headers.get('accept') ?? '')

const limitedAs = ({ body, reads }: Contract) => (body === undefined || reads === true ? 'read' : 'command')

/** Journal seq that the caller knows of, from an answer of another node. */
const SEEN_HEADER = 'x-seen-seq'

/** @throws Refusal `field_invalid` */
export const seqSeen = (request: Request): number | undefined => countIn(request, SEEN_HEADER)

/** Epoch of the leading node that the caller has judged, by which it wants to be answered. */
const JUDGED_HEADER = 'x-leader-epoch'

/** @throws Refusal `field_invalid` */
export const epochJudged = (request: Request): number | undefined => countIn(request, JUDGED_HEADER)

function countIn({ headers }: Request, field: string): number | undefined {
  const text = headers.get(field)
  if (text === null) return undefined
  if (!/^[0-9]{1,15}$/.test(text)) throw new Refusal('field_invalid', { field })
  return Number(text)
}

/**
 * Nothing of the caller goes to a leading node that it has not judged.
 * @throws Refusal `lease_lost`; `outcome_unknown` for a command whose bytes are for the node that leads by now, once it is judged
 */
export function requireJudged(venue: NodeVenue, epoch: number | undefined, of: 'read' | 'command'): void {
  if (epoch === undefined) return
  const led = venue.epochLed()
  if (led === epoch) return
  throw new Refusal(led === undefined || of === 'read' ? 'lease_lost' : 'outcome_unknown')
}

/** A node that follows may not know yet what these say is unknown. */
const MAY_BE_NEWER: readonly RefusalCode[] = [
  'token_invalid',
  'after_invalid',
  'order_unknown',
  'withdrawal_unknown',
  'reshape_unknown',
]

/** A request, and what its route may be answered. */
type Asked = { request: Request; declared: ReadonlySet<RefusalCode> }

/** Runs again, once, where the refusal may follow from what the node has yet to read, or the leading node gives its term away. */
function retried(
  venue: NodeVenue,
  asked: Asked,
  run: () => Response | Promise<Response>,
  refused: (error: unknown) => Response,
): Response | Promise<Response> {
  const again = (error: unknown, late: Promise<void> | undefined) =>
    late === undefined ? refused(error) : late.then(run).catch(refused)
  try {
    const answer = run()
    return answer instanceof Promise
      ? answer.catch((error) => again(error, handedAfter(venue, asked, error)))
      : answer
  } catch (error) {
    try {
      return again(error, caughtUpAfter(venue, asked, error))
    } catch (lost) {
      return refused(lost)
    }
  }
}

/** Runs again, once, where the leading node gives its term away. */
async function acrossHandOver(
  venue: NodeVenue,
  asked: Asked,
  handle: () => unknown,
  again = handle,
): Promise<unknown> {
  try {
    return await handle()
  } catch (error) {
    const handed = handedAfter(venue, asked, error)
    if (handed === undefined) throw error
    await handed
    return again()
  }
}

/** Rejects with that error again where the route may not be answered what the wait ends with. */
function handedAfter(
  venue: NodeVenue,
  { request, declared }: Asked,
  error: unknown,
): Promise<void> | undefined {
  if (!(error instanceof Refusal) || !NOT_LEADING.includes(error.code)) return undefined
  return venue.handedOver(tokenOf(request))?.catch((lost: unknown) => {
    throw lost instanceof Refusal && declared.has(lost.code) ? lost : error
  })
}

function tokenOf(request: Request): string | undefined {
  try {
    return socketToken(request)
  } catch {
    return undefined
  }
}

/** @throws Refusal `lease_lost` */
export function caughtUpAfter(venue: NodeVenue, asked: Asked, error: unknown): Promise<void> | undefined {
  const is_late = error instanceof Refusal && MAY_BE_NEWER.includes(error.code)
  if (!is_late) return handedAfter(venue, asked, error)
  const orHanded = (lost: unknown): Promise<void> => {
    const handed = handedAfter(venue, asked, lost)
    if (handed === undefined) throw lost
    return handed
  }
  try {
    return venue.caughtUp()?.catch(orHanded)
  } catch (lost) {
    return orHanded(lost)
  }
}

function identify(contract: Contract, services: Services, request: Request): Session | undefined {
  if (contract.bearer === undefined) return undefined
  if (contract.bearer === 'optional') return sessionIfAny(services.venue, request)
  requireJudged(services.venue, epochJudged(request), limitedAs(contract))
  return authenticateFor(contract, services.venue, bearerToken(request))
}

/** The session of a usable token; anything else is an anonymous caller, as the answer is public. */
function sessionIfAny(venue: NodeVenue, request: Request): Session | undefined {
  try {
    return authenticate(venue, bearerToken(request))
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

/** The session of the token. Throws the codes of `authenticate`, and `read_only`. */
export function authenticateFor(
  { access }: { readonly access?: 'read' },
  venue: NodeVenue,
  token: string | undefined,
): Session {
  const session = authenticate(venue, token)
  if (session.access === 'read' && access !== 'read') throw new Refusal('read_only')
  return session
}

const TOKEN = /^[A-Za-z0-9._~+/=-]{1,512}$/

/** The session of the token. Throws `token_missing`, `token_invalid`, `token_expired` or `token_revoked`. */
export function authenticate(venue: NodeVenue, token: string | undefined): Session {
  if (token === undefined) throw new Refusal('token_missing')
  if (!TOKEN.test(token)) throw new Refusal('token_invalid')
  return venue.authenticate(token)
}

/** The token of `Authorization: Bearer <token>` (RFC 6750), if any. Throws `token_invalid` for other schemes. */
function bearerToken(request: Request): string | undefined {
  const header = request.headers.get('authorization')
  if (header === null) return undefined
  if (!/^Bearer +[^\s,]+$/i.test(header)) throw new Refusal('token_invalid')
  return header.slice(header.lastIndexOf(' ') + 1)
}

/** The token of a socket: the header, or `?token=` for clients that cannot set headers. Several must be equal. */
export function socketToken(request: Request): string | undefined {
  const start = request.url.indexOf('?')
  const given = start === -1 ? [] : new URLSearchParams(request.url.slice(start + 1)).getAll('token')
  const in_header = bearerToken(request)
  if (in_header !== undefined) given.push(in_header)
  if (given.some((token) => token !== given[0])) throw new Refusal('token_invalid')
  return given[0]
}

type Parse = (value: unknown) => unknown
type Parts = { query: (url: string) => unknown; params: Parse | undefined; body: Parse | undefined }
const NO_QUERY = exact({})
function partsOf({ params, query = NO_QUERY, body }: Contract): Parts {
  return {
    params: params && parserOf(params, 'path'),
    query: queriesOf(parserOf(query, 'query')),
    body: body && parserOf(body, 'body'),
  }
}

/** Keeps what the newest queries gave: callers poll with the same ones. Handlers do not change a query. */
function queriesOf(parse: (value: Record<string, string>) => object): (url: string) => unknown {
  const kept = new Map<string, unknown>()
  return (url) => {
    const start = url.indexOf('?')
    const text = start === -1 ? '' : url.slice(start)
    const known = kept.get(text)
    if (known !== undefined) return known
    const query = Object.freeze(parse(readQuery(url)))
    if (text.length > QUERY_CHARACTERS_KEPT_MAX) return query
    if (kept.size >= QUERIES_KEPT_MAX) kept.clear()
    kept.set(text, query)
    return query
  }
}

/** Lists every field: the call is built per request, and spreading is slower. */
function callsOf(services: Services, parts: Parts) {
  const { venue, enclave, clock, log, meters, quotes, sockets, documents, started_ms } = services
  const { checks_texts, info, attestation, leader, node } = services
  return (
    request: Request,
    { session, params }: Caller,
    body: unknown,
  ): Services & Record<string, unknown> => ({
    venue,
    enclave,
    clock,
    log,
    meters,
    quotes,
    sockets,
    documents,
    checks_texts,
    node,
    started_ms,
    info,
    attestation,
    leader,
    session,
    account_id: session?.account_id,
    params: parts.params?.(params),
    query: parts.query(request.url),
    body: parts.body?.(body),
  })
}

function refusalsOf(
  { contract }: Endpoint,
  services: Services,
  route: string,
  declared: ReadonlySet<RefusalCode>,
) {
  return (error: unknown, { request_id, session, limits }: Exchange): Response => {
    const refusal = refusalOf(error, services.log, { request_id, route })
    // A request beyond the limit takes no tokens; the headers report the remaining ones.
    const limited = refusal.code === 'rate_limited' && session !== undefined
    // The reference document lists every code of every route: another code is a bug of the contract.
    if (!declared.has(refusal.code)) {
      services.log.write('warn', 'refusal_undeclared', { route, code: refusal.code })
    }
    return problemResponse(refusal, request_id, services.meters, {
      ...(limited ? limitHeaders(services.venue.takeLimit(session, 0)) : limits),
      ...crossOriginHeaders(contract),
    })
  }
}

/** Lets pages of other origins read public answers, such as a verification page that the venue does not serve. */
function crossOriginHeaders(contract: Contract): HeaderMap {
  return contract.bearer === true || contract.body !== undefined ? {} : { 'access-control-allow-origin': '*' }
}

function replyOf(contract: Contract, services: Services, route: string) {
  const { answer } = contract
  const fixed: HeaderMap = {
    ...crossOriginHeaders(contract),
    ...(contract.cache === undefined ? {} : { 'cache-control': contract.cache }),
  }
  if ('text' in answer) {
    return (value: unknown, { request_id, limits }: Exchange) => {
      const text = value as Text
      const headers = { ...commonHeaders(request_id), ...limits, ...fixed, ...text.headers }
      return new Response(text.body, {
        status: answer.status,
        headers: { ...headers, 'content-type': text.content_type },
      })
    }
  }
  const textOf = answerTexts(answer.body, services, route)
  const pendingOf = answer.pending && answerTexts(answer.pending, services, route)
  const template = { ...commonHeaders(''), ...fixed, 'content-type': 'application/json' }
  // A Response copies a Headers object as it is; the entries of a plain object are validated for each response.
  const unlimited = new Headers(template)
  const limited = new Headers(template)
  /** The limits that `limited` has. */
  let shown: HeaderMap = {}
  const toCsv = answer.csv === undefined ? undefined : csvOf(answer.body, answer.csv)
  return (value: unknown, { request_id, limits, csv }: Exchange) => {
    if (csv && toCsv !== undefined) {
      const headers = { ...commonHeaders(request_id), ...limits, ...fixed, 'content-type': 'text/csv' }
      return new Response(toCsv(value), { status: answer.status, headers })
    }
    const headers = limits === undefined ? unlimited : limited
    headers.set('x-request-id', request_id)
    for (const name in limits) if (limits[name] !== shown[name]) headers.set(name, limits[name]!)
    shown = limits ?? shown
    if (pendingOf !== undefined && isPending(value))
      return new Response(pendingOf(value), { status: 202, headers })
    return new Response(textOf(value), { status: answer.status, headers })
  }
}

const isPending = (value: unknown): boolean =>
  (value as { status?: string }).status?.endsWith('_pending') === true

/**
 * Rejects an answer that does not fit its schema: a field added by mistake must not leave the venue. Texts from the engine
 * were built from the wire's shapes and are validated only with `checks_texts`.
 */
function answerTexts(body: TSchema, services: Services, route: string): (value: unknown) => string {
  // Compiled at the first answer, so that the start does not wait for every schema.
  let compiled: TypeCheck<TSchema> | undefined
  const check = (value: unknown) => {
    compiled ??= TypeCompiler.Compile(body)
    if (compiled.Check(value)) return
    const pointer = compiled.Errors(value).First()?.path ?? ''
    const field = pointer.slice(1).replaceAll('/', '.')
    services.log.write('error', 'answer_undeclared', { route, field })
    throw new Refusal('internal')
  }
  /** JSON of frozen values: the venue returns the same object until it replaces it. */
  const texts = new WeakMap<object, string>()
  return (value) => {
    if (typeof value === 'string') {
      if (services.checks_texts) check(JSON.parse(value))
      return value
    }
    const known = texts.get(value as object)
    if (known !== undefined) return known
    check(value)
    const text = JSON.stringify(value)
    if (typeof value === 'object' && value !== null && Object.isFrozen(value)) texts.set(value, text)
    return text
  }
}

type Row = Readonly<Record<string, string | number | null>>

/** For a body with a list of flat rows in `field`. */
export function csvOf(body: TSchema, field: string): (value: unknown) => string {
  const columns = Object.keys(((body as TObject).properties[field] as TArray<TObject>).items.properties)
  return (value) => {
    const rows = (value as Record<string, readonly Row[]>)[field]!
    const lines = rows.map((row) => columns.map((name) => cell(row[name] ?? '')).join(','))
    return `${[columns.join(','), ...lines].join('\r\n')}\r\n`
  }
}

const cell = (value: string | number): string =>
  /[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value)
