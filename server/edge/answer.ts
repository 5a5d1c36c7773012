/** Answers one request of an endpoint in the published order: token, limit, size, parse, handler. */
import type { NodeVenue, Session } from '../../engine/venue'
import { NOT_LEADING, Refusal, type RefusalCode } from '../../protocol/refusals'
import { exact, parserOf } from '../../protocol/wire/values'
import { URL_CHARACTERS_KEPT_MAX, URLS_KEPT_MAX } from '../limits'
import { answerTexts, csvOf } from './answer_texts'
import { parseBody, readBounded, readQuery } from './body'
import { declaredRefusals } from './declared'
import type { Contract, Endpoint, Text } from './endpoint'
import { commonHeaders, type HeaderMap, requestId } from './headers'
import { problemResponse, refusalOf } from './problem'
import { limitHeaders } from './rate'
import type { Services } from './services'

/** A request from the router. `params` are those of the path, absent where it has none; `said` is the parsed URL, if known. */
type Routed = { request: Request; params?: Record<string, string>; said?: Said }
export type Answering = (routed: Routed) => Response | Promise<Response>

/** The parts of a request's URL; handlers do not change them. */
type Said = { readonly params: unknown; readonly query: unknown }
type Known = { readonly answers: Answers; readonly said: Said }

/** The newest URLs of GETs, with their parts and the endpoint that answers them: callers poll with the same ones. */
export class KnownUrls {
  private readonly kept = new Map<string, Known>()

  get({ method, url }: Request): Known | undefined {
    const known = this.kept.get(url)
    return known !== undefined && method === 'GET' ? known : undefined
  }

  keep({ method, url }: Request, known: Known): void {
    if (method !== 'GET' || url.length > URL_CHARACTERS_KEPT_MAX) return
    if (this.kept.size >= URLS_KEPT_MAX) this.kept.clear()
    this.kept.set(url, known)
  }
}

/** One request, and the facts that its answer and its log lines carry. */
type Exchange = {
  readonly request: Request
  readonly params: Record<string, string>
  said: Said | undefined
  readonly request_id: string
  /** Headers by which the caller is identified, also after a wait; null before they are read. */
  judged: number | undefined | null
  token: string | undefined | null
  session: Session | undefined
  limits: HeaderMap | undefined
  /** The caller asked for CSV, and the endpoint has it. */
  readonly csv: boolean
}
const NO_PARAMS = {}

/** `route` is the template written to logs, such as `GET /orders/{order_id}`. */
export function answering(endpoint: Endpoint, services: Services, route: string): Answering {
  const one = new Answers(endpoint, services, route)
  return (routed) => one.answer(routed)
}

/** Of one endpoint. Not async: a promise would add a large part to the cost of a read that has nothing to wait for. */
class Answers {
  private readonly contract: Contract
  private readonly handler: (call: unknown) => unknown
  private readonly parts: Parts
  private readonly Call: ReturnType<typeof callsOf>
  private readonly declared: ReadonlySet<RefusalCode>
  private readonly reply: ReturnType<typeof replyOf>
  private readonly refuse: ReturnType<typeof refusalsOf>

  constructor(
    endpoint: Endpoint,
    private readonly services: Services,
    route: string,
  ) {
    this.contract = endpoint.contract
    this.handler = endpoint.handler as (call: unknown) => unknown
    this.parts = partsOf(this.contract)
    this.Call = callsOf(services)
    this.declared = new Set(declaredRefusals(endpoint))
    this.reply = replyOf(this.contract, services, route)
    this.refuse = refusalsOf(endpoint, services, route, this.declared)
  }

  answer({ request, params = NO_PARAMS, said }: Routed): Response | Promise<Response> {
    const exchange: Exchange = {
      request,
      params,
      said,
      request_id: requestId(request),
      judged: null,
      token: null,
      session: undefined,
      limits: undefined,
      csv: isCsv(this.contract, request),
    }
    const { venue } = this.services
    try {
      const answered = this.run(exchange)
      if (!(answered instanceof Promise) || this.parts.body !== undefined) return answered // catches itself
      return answered.catch((error) =>
        this.again(exchange, error, handedAfter(venue, this.asked(exchange), error)),
      )
    } catch (error) {
      try {
        return this.again(exchange, error, caughtUpAfter(venue, this.asked(exchange), error))
      } catch (lost) {
        return this.refuse(lost, exchange)
      }
    }
  }

  private run(exchange: Exchange): Response | Promise<Response> {
    const { contract } = this
    const { venue } = this.services
    const { request } = exchange
    const session = identify(contract, venue, exchange)
    exchange.session = session
    if (session !== undefined && contract.cost !== undefined)
      exchange.limits = limitHeaders(venue.takeLimit(session, contract.cost, limitedAs(contract)))
    if (this.parts.body !== undefined) return this.withBody(exchange)
    const late = session && venue.caughtUp(session.account_id, seqSeen(request))
    if (late === undefined) return this.read(exchange, session)
    // Another node may lead after the wait, and the token have ended.
    return late.then(() => identify(contract, venue, exchange)).then(() => this.read(exchange, session))
  }

  /** Tries once more if the node may be behind, or the leading node gives its term away. */
  private again(exchange: Exchange, error: unknown, late: Promise<void> | undefined) {
    if (late === undefined) return this.refuse(error, exchange)
    return late.then(() => this.run(exchange)).catch((lost) => this.refuse(lost, exchange))
  }

  /** Runs the handler and charges the rows that it read, which are known only now. */
  private read(exchange: Exchange, session: Session | undefined): Response | Promise<Response> {
    const { contract } = this
    const { venue } = this.services
    const before = session === undefined ? 0 : venue.readUnits()
    const value = this.handle(exchange, session, undefined)
    if (exchange.limits !== undefined) {
      const units = venue.readUnits() - before
      if (units > 0) exchange.limits = limitHeaders(venue.chargeRead(exchange.session!, units))
    }
    if (!(value instanceof Promise)) return this.finish(value, exchange)
    // The caller of a request that changes something sends it again: the end of a token has begun here.
    if (exchange.request.method !== 'GET') return this.waited(value, exchange)
    const again = () => this.handle(exchange, identify(contract, venue, exchange), undefined)
    const across = acrossHandOver(venue, this.asked(exchange), () => value, again)
    return this.waited(across, exchange)
  }

  private async withBody(exchange: Exchange): Promise<Response> {
    const { request } = exchange
    const { venue } = this.services
    try {
      const bytes = await readBounded(request)
      // A body can take its time: the token may have expired, or have been revoked, since it was looked at.
      const handle = () =>
        this.handle(exchange, identify(this.contract, venue, exchange), parseBody(request, bytes))
      return this.finish(await acrossHandOver(venue, this.asked(exchange), handle), exchange)
    } catch (error) {
      return this.refuse(error, exchange)
    }
  }

  private handle(exchange: Exchange, session: Session | undefined, body: unknown): unknown {
    exchange.said ??= this.saidBy(exchange)
    const { params, query } = exchange.said
    return this.handler(new this.Call(session, params, query, this.parts.body?.(body)))
  }

  private saidBy({ request, params }: Exchange): Said {
    const { parts, services } = this
    const [of_path, query] = [parts.params?.(params), parts.query(readQuery(request.url))]
    const said = { params: Object.freeze(of_path), query: Object.freeze(query) }
    services.urls.keep(request, { answers: this, said })
    return said
  }

  private async waited(value: Promise<unknown>, exchange: Exchange): Promise<Response> {
    try {
      return this.finish(await value, exchange)
    } catch (error) {
      return this.refuse(error, exchange)
    }
  }

  private finish(value: unknown, exchange: Exchange): Response {
    const response = this.reply(value, exchange)
    this.services.meters.answered()
    return response
  }

  private asked({ request }: Exchange): Asked {
    return { request, declared: this.declared }
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

/** A node that follows may lack these ids only because it is behind. */
const MAY_BE_NEWER: readonly RefusalCode[] = [
  'token_invalid',
  'after_invalid',
  'order_unknown',
  'withdrawal_unknown',
  'reshape_unknown',
]

/** A request, and the refusals of its route. */
type Asked = { request: Request; declared: ReadonlySet<RefusalCode> }

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

/** Resolves when it may run again. Rejects with `error`, or with the wait's error if it is a command whose route declares it. */
function handedAfter(
  venue: NodeVenue,
  { request, declared }: Asked,
  error: unknown,
): Promise<void> | undefined {
  if (!(error instanceof Refusal) || !NOT_LEADING.includes(error.code)) return undefined
  return venue.handedOver(tokenOf(request))?.catch((lost: unknown) => {
    throw request.method !== 'GET' && lost instanceof Refusal && declared.has(lost.code) ? lost : error
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

function identify(contract: Contract, venue: NodeVenue, exchange: Exchange): Session | undefined {
  const { request } = exchange
  if (contract.bearer === undefined) return undefined
  if (contract.bearer === 'optional') return sessionIfAny(venue, request)
  if (exchange.judged === null) exchange.judged = epochJudged(request)
  requireJudged(venue, exchange.judged, limitedAs(contract))
  if (exchange.token === null) exchange.token = bearerToken(request)
  return authenticateFor(contract, venue, exchange.token)
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

const BEARER = 'Bearer '

/** The text after `Authorization: Bearer ` (RFC 6750), if any, a token or not. Throws `token_invalid` for other schemes. */
function bearerToken(request: Request): string | undefined {
  const header = request.headers.get('authorization')
  if (header === null) return undefined
  if (!/^Bearer /i.test(header)) throw new Refusal('token_invalid')
  let at = BEARER.length
  while (header[at] === ' ') at += 1
  return header.slice(at)
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
type Parts = { query: Parse; params: Parse | undefined; body: Parse | undefined }
const NO_QUERY = exact({})
function partsOf({ params, query = NO_QUERY, body }: Contract): Parts {
  return {
    params: params && parserOf(params, 'path'),
    query: parserOf(query, 'query'),
    body: body && parserOf(body, 'body'),
  }
}

/** The argument of handlers. Each inherits the services: that is faster than copying them. */
function callsOf(services: Services) {
  class Call {
    readonly account_id: string | undefined
    constructor(
      readonly session: Session | undefined,
      readonly params: unknown,
      readonly query: unknown,
      readonly body: unknown,
    ) {
      this.account_id = session?.account_id
    }
  }
  Object.setPrototypeOf(Call.prototype, services)
  return Call
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
  const textOf = answerTexts(answer.body, services, route, answer.writes)
  const pendingOf = answer.pending && answerTexts(answer.pending, services, route)
  const template = { ...commonHeaders(''), ...fixed, 'content-type': 'application/json' }
  // A Response copies a Headers object as it is; the entries of a plain object are validated for each response.
  const unlimited = { status: answer.status, headers: new Headers(template) }
  const limited = { status: answer.status, headers: new Headers(template) }
  /** The limits that `limited` has. */
  let shown: HeaderMap | undefined
  const toCsv = answer.csv === undefined ? undefined : csvOf(answer.body, answer.csv)
  return (value: unknown, { request_id, limits, csv }: Exchange) => {
    if (csv && toCsv !== undefined) {
      const headers = { ...commonHeaders(request_id), ...limits, ...fixed, 'content-type': 'text/csv' }
      return new Response(toCsv(value), { status: answer.status, headers })
    }
    const init = limits === undefined ? unlimited : limited
    const { headers } = init
    headers.set('x-request-id', request_id)
    if (limits !== undefined && limits !== shown) {
      for (const name in limits) if (limits[name] !== shown?.[name]) headers.set(name, limits[name]!)
      shown = limits
    }
    if (pendingOf !== undefined && isPending(value))
      return new Response(pendingOf(value), { status: 202, headers })
    return new Response(textOf(value), init)
  }
}

const isPending = (value: unknown): boolean =>
  (value as { status?: string }).status?.endsWith('_pending') === true
