/** Answers one request of an endpoint in the published order: token, limit, size, form, and then the handler. */
import type { TSchema } from '@sinclair/typebox'
import type { Session } from '../engine/venue'
import { Refusal } from '../protocol/refusals'
import { authenticate, bearerToken } from './_auth'
import { readBody } from './_body'
import { declaredRefusals } from './_declared'
import type { Contract, Endpoint, Text } from './_endpoint'
import { type Form, formOf } from './_form'
import { commonHeaders, type HeaderMap, requestId } from './_headers'
import { problemResponse, refusalOf } from './_problem'
import { readQuery } from './_query'
import { limitHeaders } from './_rate'
import type { Services } from './_services'

export type Answering = (request: Request, params: Record<string, string>) => Promise<Response>

/** `route` is the template written to logs, such as `GET /orders/{order_id}`. */
export function answering(endpoint: Endpoint, services: Services, route: string): Answering {
  const { contract } = endpoint
  const declared = new Set(declaredRefusals(endpoint))
  const parts = partsOf(contract)
  const reply = replyOf(contract, services, route)
  const handler = endpoint.handler as (call: unknown) => unknown

  return async (request, params) => {
    const request_id = requestId(request)
    const limits: HeaderMap = {}
    try {
      const session = identify(contract, services, request)
      if (session !== undefined && contract.cost !== undefined) {
        Object.assign(limits, limitHeaders(services.venue.takeLimit(session.account_id, contract.cost)))
      }
      const body = parts.body === undefined ? undefined : await readBody(request)
      const call = {
        ...services,
        session,
        account_id: session?.account_id,
        params: parts.params?.check(params),
        query: parts.query?.check(readQuery(request.url)),
        body: parts.body?.check(body),
      }
      const value = await handler(call)
      services.meters.answered()
      return reply(value, { ...commonHeaders(request_id), ...limits })
    } catch (error) {
      const refusal = refusalOf(error, services.log, { request_id, route })
      // The document promises every code of every route; one it does not know is a fault of the contract.
      if (!declared.has(refusal.code)) {
        services.log.write('warn', 'refusal_undeclared', { route, code: refusal.code })
      }
      return problemResponse(refusal, request_id, services.meters, {
        ...limits,
        ...exhausted(refusal),
        ...shared(contract),
      })
    }
  }
}

type Parts = { params?: Form<never>; query?: Form<never>; body?: Form<never> }
function partsOf(contract: Contract): Parts {
  return {
    ...(contract.params === undefined ? {} : { params: formOf(contract.params, 'path') as Form<never> }),
    ...(contract.query === undefined ? {} : { query: formOf(contract.query, 'query') as Form<never> }),
    ...(contract.body === undefined ? {} : { body: formOf(contract.body, 'body') as Form<never> }),
  }
}

function identify(contract: Contract, services: Services, request: Request): Session | undefined {
  if (contract.bearer === undefined) return undefined
  const token = bearerToken(request)
  if (token === undefined && contract.bearer === 'optional') return undefined
  return authenticate(services.venue, token)
}

/** The account's bucket is empty, so nothing remains whatever its size. */
function exhausted(refusal: Refusal): HeaderMap {
  if (refusal.code !== 'rate_limited') return {}
  return { ratelimit: `"account";r=0;t=${Math.ceil((refusal.facts.retry_after_ms ?? 0) / 1000)}` }
}

/** Public answers may be read by pages of other origins, such as a verification page that is not served by the venue. */
function shared(contract: Contract): HeaderMap {
  return contract.bearer === true || contract.body !== undefined ? {} : { 'access-control-allow-origin': '*' }
}

function replyOf(contract: Contract, services: Services, route: string) {
  const { answer } = contract
  const fixed: HeaderMap = {
    ...shared(contract),
    ...(contract.cache === undefined ? {} : { 'cache-control': contract.cache }),
  }
  if ('text' in answer) {
    return (value: unknown, headers: HeaderMap) => {
      const text = value as Text
      return new Response(text.body, {
        status: answer.status,
        headers: { ...headers, ...fixed, ...text.headers, 'content-type': text.content_type },
      })
    }
  }
  const form = formOf(answer.body, 'answer')
  return (value: unknown, headers: HeaderMap) => {
    const is_text = typeof value === 'string'
    // Whatever the document does not declare is not sent: a field added by mistake must not leave the venue.
    if (!is_text || services.checks_texts) {
      const sent = is_text ? JSON.parse(value) : value
      if (!form.fits(sent)) {
        services.log.write('error', 'answer_undeclared', { route, field: fieldAtFault(form, sent) })
        throw new Refusal('internal')
      }
    }
    return new Response(is_text ? value : JSON.stringify(value), {
      status: answer.status,
      headers: { ...headers, ...fixed, 'content-type': 'application/json' },
    })
  }
}

function fieldAtFault(form: Form<TSchema>, value: unknown): string {
  try {
    form.check(value)
  } catch (fault) {
    if (fault instanceof Refusal) return fault.facts.field ?? ''
  }
  return ''
}
