/** Turns what the Swagger plugin writes into a valid and complete OpenAPI 3.0.3 document. */
import { REFUSAL_BY_CODE, type RefusalCode } from '../protocol/refusals'
import { declaredRefusals } from './_declared'
import type { MountedRoute } from './_mount'
import { fixSchema, type Json, openSchema } from './_openapi_schema'
import type { TSchema } from './_wire'

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

const WORDS: Record<number, string> = {
  101: 'Switching to WebSocket.',
  200: 'Done.',
  202: 'Accepted: durable, and part of a coming batch.',
}

export function fixDocument(document: OpenApi, manifest: readonly MountedRoute[], problem: TSchema): OpenApi {
  const paths: OpenApi['paths'] = {}
  for (const mounted of manifest) {
    const { method, path } = mounted
    const listed = document.paths[path.startsWith('/swagger') ? `/-${path}` : path]?.[method]
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
      schemas: { Problem: openSchema(fixSchema(problem as unknown as Json)) },
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
  if (route.kind === 'stream') return { 101: { description: WORDS[101]! } }
  const { answer } = route.contract
  const description = WORDS[answer.status]!
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

/** One response per status, naming its codes in the order of checks. */
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

const RETRY_AFTER: Json = {
  'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 1 } },
}
