/** Builds the OpenAPI 3.0.3 document of all routes: `@elysiajs/swagger` lists their contracts, and the rest corrects its output. */

import { swagger } from '@elysiajs/swagger'
import { Elysia } from 'elysia'
import { REFUSAL_BY_CODE, type RefusalCode } from '../../protocol/refusals'
import { declaredRefusals } from '../edge/declared'
import type { Endpoint, MountedRoute, Stream } from '../edge/endpoint'
import { COST } from '../edge/rate'
import { exact, type TSchema, t } from '../shapes/wire'
import { StreamQuery } from '../sockets/upgrade'

export type Json = { [name: string]: unknown }
export type Operation = {
  summary: string
  description?: string
  operationId: string
  tags: string[]
  security?: unknown[]
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: Json }[]
  requestBody?: { required: boolean; content: Record<string, { schema: Json }> }
  responses: Record<
    string,
    { description: string; content?: Record<string, { schema: Json }>; headers?: Json }
  >
}
export type OpenApi = {
  openapi: string
  info: { title: string; version: string; description: string }
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: Json
}

const DESCRIPTION = `Confidential trading venue: sealed batch auctions inside an attested Intel TDX machine, settled on Solana.
Amounts, prices and nonces are decimal strings; ids, commitments and order signatures are lowercase hex.
Keys, mints and transaction signatures are base58; slots, seq and milliseconds are integers.
Errors are application/problem+json with a stable code and \`applied\`; any 4xx but an identical resend was not applied.
REST and sockets draw on one bucket per account, whose size and refill \`RateLimit-Policy\` names; an empty one answers 429.
A place costs ${COST.place}, a cancel ${COST.cancel}, a modify ${COST.modify}, a read ${COST.read}.
A withdrawal or a reshape costs ${COST.withdraw}.`

const Problem = exact({
  type: t.String(),
  title: t.String(),
  status: t.Integer(),
  detail: t.String(),
  code: t.String(),
  message: t.String(),
  request_id: t.String(),
  applied: t.Union([t.Literal('no'), t.Literal('yes'), t.Literal('unknown')]),
  field: t.Optional(t.String()),
  nonce_last: t.Optional(t.String()),
  retry_after_ms: t.Optional(t.Integer()),
  status_now: t.Optional(t.String()),
  subsystem: t.Optional(t.String()),
  result: t.Optional(t.Unknown()),
})

const TAGS = [
  ['account', 'Log in, log out.'],
  ['orders', 'Commands signed by trading keys, and what became of them.'],
  ['notes', 'Notes, withdrawals and the tree of commitments.'],
  ['settlement', 'How matched orders land on chain.'],
  ['market', 'Instruments.'],
  ['trust', 'What proves the venue.'],
  ['operations', 'Liveness, readiness, time, reference.'],
  ['streams', 'WebSocket paths.'],
] as const

const SUCCESS_TEXT: Record<number, string> = {
  101: 'Switching to WebSocket.',
  200: 'Done.',
  202: 'Accepted: durable, and part of a coming batch.',
}
const RETRY_AFTER: Json = {
  'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 1 } },
}

/** Deterministic for a manifest and version. */
export async function openApiOf(manifest: readonly MountedRoute[], version: string): Promise<OpenApi> {
  const app = new Elysia().use(
    swagger({
      path: '/swagger',
      excludeStaticFile: false,
      exclude: ['/swagger', '/swagger/json'],
      documentation: {
        info: { title: 'Tacit', version, description: DESCRIPTION },
        components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
        tags: TAGS.map(([name, description]) => ({ name, description })),
      },
    }),
  )
  for (const { method, path, route } of manifest) {
    app.route(
      method.toUpperCase(),
      listedPath(path).replace(/\{([^}]+)\}/g, ':$1'),
      (() => '') as never,
      hooksOf(route) as never,
    )
  }
  const response = await app.handle(new Request('http://localhost/swagger/json'))
  return fixDocument((await response.json()) as OpenApi, manifest)
}

/** The plugin serves its own document under /swagger, so these routes are listed to it under another path. */
function listedPath(path: string): string {
  return path.startsWith('/swagger') ? `/-${path}` : path
}

function hooksOf(route: Endpoint | Stream): Record<string, unknown> {
  const codes = declaredRefusals(route)
  const refused = Object.fromEntries(codes.map((code) => [REFUSAL_BY_CODE.get(code)!.status, Problem]))
  if (route.kind === 'stream') {
    const { summary, description } = route.contract
    return {
      query: StreamQuery,
      response: { 101: t.String(), ...refused },
      detail: { summary, description, tags: ['streams'] },
    }
  }
  const { contract } = route
  const success: TSchema = 'text' in contract.answer ? t.String() : contract.answer.body
  return {
    parse: 'json',
    ...(contract.params === undefined ? {} : { params: contract.params }),
    ...(contract.query === undefined ? {} : { query: contract.query }),
    ...(contract.body === undefined ? {} : { body: contract.body }),
    response: { [contract.answer.status]: success, ...refused },
    detail: {
      summary: contract.summary,
      ...(contract.description === undefined ? {} : { description: contract.description }),
      tags: [contract.tag],
      ...(contract.bearer === undefined ? {} : { security: securityOf(contract.bearer) }),
    },
  }
}

/** An optional token: the bearer scheme or none. */
function securityOf(bearer: true | 'optional'): Record<string, never[]>[] {
  return bearer === true ? [{ bearer: [] }] : [{ bearer: [] }, {}]
}

/** Restores what the plugin drops or gets wrong: paths, operation ids, answers with every code, the problem schema. */
function fixDocument(document: OpenApi, manifest: readonly MountedRoute[]): OpenApi {
  const paths: OpenApi['paths'] = {}
  for (const mounted of manifest) {
    const { method, path } = mounted
    const listed = document.paths[listedPath(path)]?.[method]
    if (listed === undefined) throw new Error(`${method} ${path} is missing from the reference document`)
    paths[path] = { ...paths[path], [method]: fixOperation(listed, mounted) }
  }
  return {
    openapi: document.openapi,
    info: document.info,
    tags: document.tags,
    paths,
    components: {
      securitySchemes: (document.components as Record<string, Json>)['securitySchemes']!,
      schemas: { Problem: openSchema(fixSchema(Problem as unknown as Json)) },
    },
  }
}

function fixOperation(listed: Operation, mounted: MountedRoute): Operation {
  const { route, method, path } = mounted
  const { summary, description, tags, security, parameters, requestBody } = listed
  return {
    operationId: operationId(method, path),
    summary,
    ...(description === undefined ? {} : { description }),
    tags,
    ...(route.kind === 'stream'
      ? { security: [{ bearer: [] }] }
      : security === undefined
        ? {}
        : { security }),
    ...(parameters === undefined || parameters.length === 0
      ? {}
      : { parameters: parameters.map(fixParameter) }),
    ...(requestBody === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: { 'application/json': { schema: fixSchema(firstSchema(requestBody.content)) } },
          },
        }),
    responses: { ...success(listed, mounted), ...refused(declaredRefusals(route)) },
  }
}

function operationId(method: string, path: string): string {
  const words = path.split(/[/{}.-]+/).filter((word) => word !== '')
  return [method, ...words].join('_')
}

function fixParameter(parameter: NonNullable<Operation['parameters']>[number]) {
  const { name, schema, description } = parameter
  return {
    name,
    in: parameter.in,
    required: parameter.in === 'path' || parameter.required,
    ...(description === undefined ? {} : { description }),
    schema: fixSchema(schema),
  }
}

function success(listed: Operation, { route }: MountedRoute): Operation['responses'] {
  if (route.kind === 'stream') return { 101: { description: SUCCESS_TEXT[101]! } }
  const { answer } = route.contract
  const description = SUCCESS_TEXT[answer.status]!
  if ('text' in answer) {
    const types = typeof answer.text === 'string' ? [answer.text] : answer.text
    const content = types.map((type) => [
      type,
      { schema: { type: type.endsWith('/json') ? 'object' : 'string' } },
    ])
    return { [answer.status]: { description, content: Object.fromEntries(content) } }
  }
  const schema = openSchema(fixSchema(firstSchema(listed.responses[answer.status]!.content!)))
  return { [answer.status]: { description, content: { 'application/json': { schema } } } }
}

function firstSchema(content: Record<string, { schema: Json }>): Json {
  return Object.values(content)[0]!.schema
}

/** One response per status; its description lists the codes in the order of checks. */
function refused(codes: readonly RefusalCode[]): Operation['responses'] {
  const by_status = new Map<number, RefusalCode[]>()
  for (const code of codes) {
    const { status } = REFUSAL_BY_CODE.get(code)!
    by_status.set(status, [...(by_status.get(status) ?? []), code])
  }
  const responses: Operation['responses'] = {}
  for (const [status, own] of [...by_status].sort(([a], [b]) => a - b)) {
    responses[status] = {
      description: own.map((code) => `\`${code}\``).join(', '),
      ...(status === 429 || status === 503 ? { headers: RETRY_AFTER } : {}),
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
    }
  }
  return responses
}

/** Converts a TypeBox schema to the OpenAPI 3.0.3 dialect: no `const`, no `null` type, query integers as integers. */
export function fixSchema(schema: Json): Json {
  const { 'x-maximum': maximum, ...rest } = schema
  if (maximum !== undefined) return integer(rest, 1, maximum as number)
  if (rest['format'] === 'safe-integer') return integer(rest, 0, Number.MAX_SAFE_INTEGER)
  if ('const' in rest) {
    const { const: only, ...others } = rest
    return { ...others, enum: [only] }
  }
  if (Array.isArray(rest['anyOf'])) return fixUnion(rest as Json & { anyOf: Json[] })
  return Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, fixKeyword(name, value)]))
}

function fixKeyword(name: string, value: unknown): unknown {
  if (name === 'items') return fixSchema(value as Json)
  if (name === 'properties') {
    const fields = Object.entries(value as Record<string, Json>)
    return Object.fromEntries(fields.map(([field, schema]) => [field, fixSchema(schema)]))
  }
  return value
}

function fixUnion({ anyOf, ...rest }: Json & { anyOf: Json[] }): Json {
  const members = anyOf.filter((member) => member['type'] !== 'null')
  const nullable = members.length < anyOf.length ? { nullable: true } : {}
  if (members.every((member) => 'const' in member)) {
    return { ...rest, type: 'string', enum: members.map((member) => member['const']), ...nullable }
  }
  if (members.length === 1) return { ...fixSchema(members[0]!), ...rest, ...nullable }
  return { ...rest, anyOf: members.map(fixSchema), ...nullable }
}

function integer({ description }: Json, minimum: number, maximum: number): Json {
  return { type: 'integer', minimum, maximum, ...(description === undefined ? {} : { description }) }
}

/** Schema of an answer: answers may gain fields, so it is not closed; keywords for requests are removed. */
function openSchema(schema: Json): Json {
  return JSON.parse(
    JSON.stringify(schema, (name, value) => {
      if (name === 'additionalProperties' && value === false) return undefined
      return name === 'x-refusal' ? undefined : value
    }),
  )
}
