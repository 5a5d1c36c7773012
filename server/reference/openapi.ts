/** Builds the OpenAPI 3.0.3 and AsyncAPI 3.0.0 documents from the contracts; `@elysiajs/swagger` serves them. */

import { swagger } from '@elysiajs/swagger'
import { Elysia } from 'elysia'
import { FRAME_BYTES_MAX, FRAME_ID_LENGTH_MAX } from '../../protocol/limits'
import { REFUSAL_BY_CODE, type RefusalCode } from '../../protocol/refusals'
import { AccountChange } from '../../protocol/wire/accounts'
import * as frames from '../../protocol/wire/public'
import { Problem } from '../../protocol/wire/public'
import {
  BatchVoided,
  EventKind,
  ExitEvent,
  Fill,
  NoteEvent,
  Order,
  OrderRefused,
  Reshape,
  Withdrawal,
} from '../../protocol/wire/trading'
import { exact, type TObject, type TSchema, t } from '../../protocol/wire/values'
import { declaredRefusals } from '../edge/declared'
import type { Contract, MountedRoute, StreamContract } from '../edge/endpoint'
import { COST } from '../edge/rate'
import { ACCOUNT_SOCKETS_MAX, FRAME_RATE, OUTBOX_BYTES_MAX, REPLIES_MAX, SOCKETS_MAX } from '../limits'
import { StreamQuery } from '../sockets/upgrade'
import EXAMPLES from './examples.json'
import { withMeanings } from './fields'

export type Json = { [name: string]: unknown }
type Parameter = { name: string; in: string; required: boolean; description?: string; schema: Json }
export type Media = { schema: Json; example?: unknown }
export type Operation = {
  summary: string
  description?: string
  operationId: string
  tags: string[]
  /** Empty where no token is read. */
  security: unknown[]
  parameters?: Parameter[]
  requestBody?: { required: boolean; content: Record<string, Media> }
  responses: Record<string, { description: string; content?: Record<string, Media>; headers?: Json }>
}
export type OpenApi = {
  openapi: string
  info: { title: string; version: string; description: string; license: { name: string; url: string } }
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

const LICENSE = { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' }

const STREAM_BOUNDS = [
  `An account has at most ${ACCOUNT_SOCKETS_MAX} open sockets, the venue ${SOCKETS_MAX}.`,
  `A frame has at most ${FRAME_BYTES_MAX} bytes (close code 1009).`,
  `A socket takes ${FRAME_RATE.capacity} frames at once, refilled by ${FRAME_RATE.refill_per_s} a second, and`,
  `${REPLIES_MAX} commands under way (4429); pings and pongs of the protocol count as frames.`,
  `A reader with more than ${OUTBOX_BYTES_MAX} bytes waiting is closed (4408). No subprotocol is taken up.`,
].join(' ')

const TAGS = [
  ['account', 'Log in, log out.'],
  ['orders', 'Commands signed by trading keys, and what became of them.'],
  ['notes', 'Notes, withdrawals and the tree of commitments.'],
  ['settlement', 'How matched orders land on chain.'],
  ['market', 'Instruments.'],
  ['trust', 'What proves the venue.'],
  ['operations', 'Liveness, readiness, time, reference.'],
  ['streams', `WebSocket paths. ${STREAM_BOUNDS}`],
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
  const paths: OpenApi['paths'] = {}
  for (const mounted of manifest) {
    const { method, path } = mounted
    paths[path] = { ...paths[path], [method]: operationOf(mounted) }
  }
  const documentation = {
    info: { title: 'Tacit', version, description: DESCRIPTION, license: LICENSE },
    servers: [{ url: '/', description: 'The venue that serves this document.' }],
    tags: TAGS.map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: openSchema(withMeanings(fixSchema(Problem), 'Problem')) },
    },
  }
  const app = new Elysia().use(swagger({ path: '/swagger', documentation: documentation as never }))
  const response = await app.handle(new Request('http://localhost/swagger/json'))
  return (await response.json()) as OpenApi
}

function operationOf({ method, path, route }: MountedRoute): Operation {
  const { summary, description } = route.contract
  const shared = {
    operationId: operationId(method, path),
    summary,
    ...(description === undefined ? {} : { description }),
  }
  const refusals = refused(declaredRefusals(route))
  if (route.kind === 'stream') {
    return {
      ...shared,
      tags: ['streams'],
      security: [{ bearer: [] }],
      parameters: parametersOf('query', StreamQuery),
      responses: { 101: { description: SUCCESS_TEXT[101]! }, ...refusals },
    }
  }
  const { tag, bearer, params, query, body, answer } = route.contract
  const parameters = [...parametersOf('path', params), ...parametersOf('query', query)]
  const schema = withMeanings(fixSchema(body ?? {}), 'body')
  const content = { 'application/json': { schema, ...exampleOf(shared.operationId, 'request') } }
  return {
    ...shared,
    tags: [tag],
    // An optional token: the bearer scheme or none.
    security: bearer === undefined ? [] : [{ bearer: [] }, ...(bearer === true ? [] : [{}])],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content } }),
    responses: { ...successes(answer, shared.operationId), ...refusals },
  }
}

/** Answers recorded from a venue (test/routes/examples.test.ts). */
function exampleOf(operation_id: string, part: 'request' | 'answer'): { example?: unknown } {
  const example = (EXAMPLES as Record<string, { request?: unknown; answer?: unknown }>)[operation_id]?.[part]
  return example === undefined ? {} : { example }
}

function operationId(method: string, path: string): string {
  const words = path.split(/[/{}.-]+/).filter((word) => word !== '')
  return [method, ...words].join('_')
}

function parametersOf(place: 'path' | 'query', schema: TObject | undefined): Parameter[] {
  return Object.entries(schema?.properties ?? {}).map(([name, { description, type, ...keywords }]) => ({
    name,
    in: place,
    required: schema!.required?.includes(name) ?? false,
    ...(description === undefined ? {} : { description }),
    schema: fixSchema({ type, ...keywords }),
  }))
}

function successes(answer: Contract['answer'], operation_id: string): Operation['responses'] {
  const whole = { [answer.status]: success(answer, operation_id, exampleOf(operation_id, 'answer')) }
  if ('text' in answer || answer.pending === undefined) return whole
  return { ...whole, 202: success({ status: 202, body: answer.pending }, operation_id, {}) }
}

function success(
  answer: Contract['answer'],
  operation_id: string,
  example: { example?: unknown },
): Operation['responses'][string] {
  const description = SUCCESS_TEXT[answer.status]!
  if ('text' in answer) {
    const types = typeof answer.text === 'string' ? [answer.text] : answer.text
    const content = types.map((type) => [
      type,
      { schema: { type: type.endsWith('/json') ? 'object' : 'string' } },
    ])
    return { description, content: Object.fromEntries(content) }
  }
  // Of an object, in this order: the document's bytes do not depend on how TypeBox orders keywords.
  const { type, properties, required } = answer.body
  const schema = type === 'object' ? { type, properties, required } : answer.body
  const csv = answer.csv === undefined ? {} : { 'text/csv': { schema: { type: 'string' } } }
  const described = openSchema(withMeanings(fixSchema(schema), operation_id, 'answer'))
  return { description, content: { 'application/json': { schema: described, ...example }, ...csv } }
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
  if ('x-integer' in schema) return { type: 'integer', ...(schema['x-integer'] as Json) }
  if ('const' in schema) {
    const { const: only, ...others } = schema
    return { ...others, enum: [only] }
  }
  if (Array.isArray(schema['anyOf'])) return fixUnion(schema as Json & { anyOf: Json[] })
  return Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, fixKeyword(name, value)]))
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

/** Schema of an answer: answers may gain fields, so it is not closed; keywords for requests are removed. */
function openSchema(schema: Json): Json {
  return JSON.parse(
    JSON.stringify(schema, (name, value) => {
      if (name === 'additionalProperties' && value === false) return undefined
      return name === 'x-refusal' ? undefined : value
    }),
  )
}

const SHAPES = {
  Order,
  'Order or refusal': t.Union([Order, OrderRefused]),
  Batch: BatchVoided,
  Fill,
  Withdrawal,
  Reshape,
  Note: NoteEvent,
  Exit: ExitEvent,
  Account: AccountChange,
} as const satisfies Record<string, TSchema>
type ShapeName = keyof typeof SHAPES

export const EVENT_SHAPES: Readonly<Record<ShapeName, TSchema>> = SHAPES

export const EVENT_KINDS: Readonly<Record<EventKind, readonly [shape: ShapeName, meaning: string]>> = {
  'order.accepted': ['Order', 'The order is durable and takes part in the next batch.'],
  'order.partially_filled': ['Order', 'An auction filled a part; the rest stays live.'],
  'order.filled': ['Order', 'The order ended: all of it is matched.'],
  'order.cancelled': ['Order', 'The order ended; `reason` states why.'],
  'order.expired': ['Order', 'The order ended: its `expiry_slot` has passed.'],
  'order.replaced': ['Order', 'The order ended: `replaced_by` took its place.'],
  'order.cancel_pending': ['Order', 'The cancel waits for the decision of the closed batch.'],
  'order.replace_pending': ['Order', 'The modify waits for the decision of the closed batch.'],
  'order.cancel_refused': ['Order or refusal', 'The cancel that waited has no effect; `code` states why.'],
  'order.replace_refused': ['Order or refusal', 'The modify that waited has no effect; `code` states why.'],
  'batch.voided': [
    'Batch',
    'The close could not be committed on chain: no auction was held, the orders rest.',
  ],
  'fill.matched': ['Fill', 'An auction filled the order; the notes are named, not yet on chain.'],
  'fill.submitted': ['Fill', 'The settlement transaction was sent.'],
  'fill.confirmed': ['Fill', 'The cluster has confirmed it; a reorg is still possible.'],
  'fill.finalized': ['Fill', 'It is final, and `/tree/inclusion` knows its notes.'],
  'fill.voided': ['Fill', 'The fill never settles: its notes do not exist, the note it used is unspent.'],
  'withdrawal.accepted': ['Withdrawal', 'The request is durable; its note is reserved.'],
  'withdrawal.submitted': ['Withdrawal', 'The batch that spends the note was sent.'],
  'withdrawal.confirmed': ['Withdrawal', 'That batch is confirmed.'],
  'withdrawal.finalized': ['Withdrawal', 'That batch is final: the amount is in the payout queue.'],
  'withdrawal.paid': ['Withdrawal', 'The payment is final.'],
  'withdrawal.refunded': [
    'Withdrawal',
    'The destination cannot receive it: `refund_commitment` is a new note.',
  ],
  'withdrawal.voided': ['Withdrawal', 'It never settles; the note is unspent.'],
  'reshape.accepted': ['Reshape', 'The request is durable; its notes are reserved.'],
  'reshape.submitted': ['Reshape', 'The batch that makes the notes was sent.'],
  'reshape.confirmed': ['Reshape', 'That batch is confirmed.'],
  'reshape.finalized': ['Reshape', 'It is final, and `/tree/inclusion` knows its notes.'],
  'reshape.voided': ['Reshape', 'It never settles; the inputs are unspent.'],
  'note.created': [
    'Note',
    'The venue accepts a note of a fill, withdrawal, reshape or refund as collateral.',
  ],
  'note.exited': ['Note', 'An exit on chain was requested for the note: it backs nothing any more.'],
  'exit.requested': ['Exit', 'The request is final on chain; the venue serves it before `deadline`.'],
  'exit.served': ['Exit', 'The batch that serves it is confirmed; the payment is open.'],
  'exit.paid': ['Exit', 'The payment is final.'],
  'exit.refunded': ['Exit', 'The destination cannot receive it: `refund_commitment` is a new note.'],
  'account.changed': ['Account', 'Credential, login, key or admission changed; `change` names which.'],
}

const PUSHED: Readonly<Record<string, [schema: TSchema, summary: string]>> = {
  hello: [
    frames.HelloFrame,
    'The first frame: the events that the venue still has, and how often it sends heartbeats.',
  ],
  status: [frames.StatusFrame, 'Whether orders are accepted, at the beginning and after each change.'],
  gap: [frames.GapFrame, 'Events asked for that the venue no longer has.'],
  event: [frames.EventFrame, 'One numbered fact of the account.'],
  heartbeat: [frames.HeartbeatFrame, 'Nothing else was sent; two in a row missing mean a dead socket.'],
  reply: [frames.ReplyFrame, 'The result of the operation with this id.'],
  error: [
    frames.ErrorFrame,
    'The refusal of the operation with this id, with the members of a problem document.',
  ],
  warning: [frames.WarningFrame, 'The token ends soon: send `auth.refresh`.'],
  bye: [frames.ByeFrame, 'The venue ends: connect again after the wait.'],
}
const SNAPSHOT: [TSchema, string] = [
  frames.SnapshotFrame,
  'The live orders, for a client that does not resume.',
]
const KINDS = EventKind.anyOf.map((kind) => kind.const as EventKind)

const EVENT_KIND = { type: 'string', description: 'What happened; it names the shape of `data`.' }

/** For each shape of `data` the kinds that have it, among the kinds that a socket sends. */
function kindsWithData(own: readonly EventKind[]): Json[] {
  return Object.entries(EVENT_SHAPES).flatMap(([name, shape]) => {
    const kinds = own.filter((kind) => EVENT_KINDS[kind][0] === name)
    const data = { ...withMeanings(plain(shape), 'data'), description: `${name}, after the event.` }
    return kinds.length === 0 ? [] : [{ properties: { kind: { ...EVENT_KIND, enum: kinds }, data } }]
  })
}

type Messages = Record<string, Json>

/** Deterministic for a manifest and version. */
export function asyncApiOf(manifest: readonly MountedRoute[], version: string): Json {
  const channels: Record<string, Json> = {}
  const operations: Record<string, Json> = {}
  const messages: Messages = {}
  for (const { path, route } of manifest) {
    if (route.kind !== 'stream') continue
    const { name, description, summary } = route.contract
    const [sent, taken] = [sentBy(route.contract), takenBy(route.contract)]
    Object.assign(messages, prefixed(name, sent), prefixed(name, taken))
    const own = Object.keys({ ...sent, ...taken })
    channels[name] = {
      address: path,
      summary,
      description,
      messages: Object.fromEntries(own.map((one) => [one, { $ref: `#/components/messages/${name}.${one}` }])),
      bindings: { ws: { method: 'GET', query: plain(StreamQuery) } },
    }
    operations[`${name}.send`] = channelOperationOf('send', name, Object.keys(sent))
    operations[`${name}.receive`] = channelOperationOf('receive', name, Object.keys(taken))
  }
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Tacit streams',
      version,
      description:
        'Sockets of one account over the TLS of the venue; each frame is one JSON text. The venue sends what `send` lists ' +
        'and takes what `receive` lists. Fields, units and refusal codes are those of the OpenAPI document.',
    },
    defaultContentType: 'application/json',
    channels,
    operations,
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } }, messages },
  }
}

function channelOperationOf(action: 'send' | 'receive', name: string, messages: readonly string[]): Json {
  const refs = messages.map((one) => ({ $ref: `#/channels/${name}/messages/${one}` }))
  const security = [{ $ref: '#/components/securitySchemes/bearer' }]
  return { action, channel: { $ref: `#/channels/${name}` }, security, messages: refs }
}

const prefixed = (name: string, messages: Messages): Messages =>
  Object.fromEntries(Object.entries(messages).map(([one, message]) => [`${name}.${one}`, message]))

function sentBy({ kinds, snapshot }: StreamContract): Messages {
  const all = snapshot ? { ...PUSHED, snapshot: SNAPSHOT } : PUSHED
  return Object.fromEntries(
    Object.entries(all).map(([name, [schema, summary]]) => {
      const payload = withMeanings(plain(schema), 'frame') as Json & { properties: Json }
      const own = KINDS.filter((kind) => kinds(kind))
      if (name === 'event') {
        const { data: _, ...rest } = payload.properties
        const data = { description: 'The object after the event; each kind has one shape.' }
        payload.properties = { ...rest, kind: { ...EVENT_KIND, enum: own }, data }
        payload['oneOf'] = kindsWithData(own)
      }
      return [name, { summary, payload }]
    }),
  )
}

/** A frame with `op`, an `id` that its reply repeats, and the params of the REST call. */
function takenBy({ ops }: StreamContract): Messages {
  const id = t.String({ minLength: 1, maxLength: FRAME_ID_LENGTH_MAX })
  return Object.fromEntries(
    Object.entries(ops).map(([op, { schema }]) => {
      const token = op === 'auth.refresh' ? { token: t.String() } : {}
      const params = schema === undefined ? {} : { params: schema }
      return [op, { payload: withMeanings(plain(exact({ op: t.Literal(op), id, ...params, ...token })), op) }]
    }),
  )
}

/** JSON Schema as AsyncAPI reads it: without the symbols of TypeBox, integers of 64 bits as integers. */
function plain(schema: TSchema): Json {
  const text = JSON.stringify(schema, (_name, value) => {
    const told = Object(value)['x-integer']
    return told === undefined ? value : { type: 'integer', ...told }
  })
  return JSON.parse(text) as Json
}
