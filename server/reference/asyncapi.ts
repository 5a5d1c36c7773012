/** Builds the AsyncAPI 3.0.0 document of the sockets from their contracts and the shapes of their frames. */
import { FRAME_ID_LENGTH_MAX } from '../../protocol/limits'
import { AccountChange } from '../../protocol/wire/accounts'
import * as frames from '../../protocol/wire/frames'
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
import { exact, type TSchema, t } from '../../protocol/wire/values'
import type { MountedRoute, StreamContract } from '../edge/endpoint'
import { StreamQuery } from '../sockets/upgrade'
import { withMeanings } from './fields'
import type { Json } from './openapi'

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
    operations[`${name}.send`] = operationOf('send', name, Object.keys(sent))
    operations[`${name}.receive`] = operationOf('receive', name, Object.keys(taken))
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

function operationOf(action: 'send' | 'receive', name: string, messages: readonly string[]): Json {
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
