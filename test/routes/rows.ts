/** One row per endpoint: a request that fits its contract, the call it leads to, its result; and the run of a row. */
import type { Enclave } from '../../enclave/contract'
import type { OwnTexts, Venue } from '../../engine/venue'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type { Endpoint } from '../../server/edge/endpoint'
import { MANIFEST } from '../../server/manifest'
import { type Answered, type CallInit, type Harness, only, openHarness } from '../kit/server/harness'
import * as answers from './answers'
import * as bodies from './bodies'

export type Row = {
  /** As in the manifest. */
  endpoint: string
  path: string
  json?: unknown
  status: number
  /** The method behind it and its result; rows without one answer from elsewhere. */
  venue?: keyof Venue
  own?: keyof OwnTexts
  enclave?: keyof Enclave
  gives?: unknown
  /** The answer where it is not the method's result. */
  answers?: unknown
  /** The handler takes single fields of the method's result, so another field of it is no error. */
  picks?: true
  /** Anonymous callers are served. */
  open?: true
}

const { HASH, KEY, ORDER, ORDER_ID, FILL, RECEIPT } = bodies

/** The path is the endpoint's unless the row names another; the status is 200. */
function row(endpoint: string, rest: Omit<Row, 'endpoint' | 'path' | 'status'> & Partial<Row>): Row {
  return { endpoint, path: endpoint.split(' ')[1]!, status: 200, ...rest }
}
const write = (
  endpoint: string,
  json: unknown,
  venue: keyof Venue,
  gives: unknown,
  rest: Partial<Row> = {},
) => row(endpoint, { json, venue, gives, ...rest })
const read = (endpoint: string, path: string, venue: keyof Venue, gives: unknown) =>
  row(endpoint, { path, venue, gives })
/** The venue gives it as text. */
const own = (endpoint: string, path: string, own: keyof OwnTexts, gives: unknown) =>
  row(endpoint, { path, own, gives })
const open = (endpoint: string, venue: keyof Venue, gives: unknown, rest: Partial<Row> = {}) =>
  row(endpoint, { venue, gives, open: true, ...rest })

const ORDER_PATH = `/orders/${ORDER_ID}`
const RECEIVED = { status: 202 }
const ROOT = { root: HASH, leaf_count: 1, depth: 32, slot: 1, batch_id: 1 }
const LEAVES = { from: 0, leaves: [HASH], root: HASH, leaf_count: 1 }
const LANDED = { batch: 3, signature: answers.TX, slot: 1, stage: 'finalized' }
const DISARMED = { expires_slot: null, seq: 1, receipt: RECEIPT }
const EVENTS = { items: [bodies.event(1), bodies.event(2, 'fill.matched')], next_after: null }

export const ROWS: Row[] = [
  open('post /auth/token', 'login', answers.TOKENS, { json: answers.CREDENTIALS }),
  row('post /auth/token/revoke', { venue: 'revoke', answers: { revoked: true } }),
  read('get /account', '/account', 'account', answers.ACCOUNT),
  write('post /account/credentials', bodies.CREDENTIAL, 'setCredential', {
    credential_id: ORDER_ID,
    version: 2,
    seq: 3,
  }),
  write('post /account/rebind', bodies.CANCEL, 'rebind', { trading_key: KEY, cancelled: [ORDER_ID], seq: 3 }),
  row('get /health', { open: true, answers: { status: 'ok', uptime_ms: 0 } }),
  open('get /system/status', 'status', answers.STATUS),
  open('get /time', 'time', answers.TIME),
  row('get /attestation', { enclave: 'attestation', gives: answers.ATTESTATION, open: true }),
  open('get /instruments', 'instruments', [answers.INSTRUMENT]),
  open('get /instruments/{symbol}', 'instrument', answers.INSTRUMENT_VIEW, { path: '/instruments/SOL-USDC' }),
  read(
    'get /instruments/{symbol}/statistics',
    '/instruments/SOL-USDC/statistics?period=day',
    'statistics',
    answers.STATISTICS,
  ),
  open('get /tree/root', 'treeRoot', ROOT),
  read('get /tree/inclusion', `/tree/inclusion?commitment=${HASH}`, 'treeInclusion', answers.INCLUSION),
  read('get /tree/leaves', '/tree/leaves?from=0&limit=10000', 'treeLeaves', LEAVES),
  open('get /transparency', 'transparency', answers.TRANSPARENCY),
  read('get /settlement/status', '/settlement/status?batch=3', 'settlementBatch', LANDED),
  write('post /orders', bodies.PLACE, 'place', bodies.PLACED, { ...RECEIVED, picks: true }),
  own('get /orders', '/orders?status=open&symbol=SOL-USDC&after=0&limit=500', 'orders', {
    items: [ORDER],
    next_after: 1,
  }),
  own('get /orders/{order_id}', ORDER_PATH, 'order', { ...ORDER, fills: [FILL] }),
  write(
    'put /orders/{order_id}',
    bodies.MODIFY,
    'modify',
    { old_order_id: ORDER_ID, ...bodies.PLACED },
    { ...RECEIVED, path: ORDER_PATH },
  ),
  write('delete /orders/{order_id}', bodies.CANCEL, 'cancel', bodies.CANCELLED, { path: ORDER_PATH }),
  write('post /orders/{order_id}/cancel', bodies.CANCEL, 'cancel', bodies.CANCELLED, {
    path: `${ORDER_PATH}/cancel`,
  }),
  write('post /orders/cancel-all', bodies.CANCEL, 'cancelAll', answers.MASS),
  write('post /orders/dead-man', bodies.DEAD_MAN, 'deadMan', DISARMED),
  row('post /orders/check', { json: bodies.CHECK, venue: 'check', answers: { ok: true } }),
  write(
    'post /notes/reshape',
    bodies.RESHAPE,
    'reshape',
    { ...answers.RESHAPED, receipt: RECEIPT },
    RECEIVED,
  ),
  own('get /notes/reshape/{reshape_id}', `/notes/reshape/${ORDER_ID}`, 'reshape', answers.RESHAPED),
  read('get /nonces', `/nonces?trading_key=${KEY}`, 'nonces', { place_nonce: '0', cancel_nonce: '3' }),
  own('get /fills', '/fills', 'fills', { items: [FILL], next_after: null }),
  own('get /events', '/events', 'events', EVENTS),
  write(
    'post /withdrawals',
    bodies.WITHDRAWAL,
    'withdraw',
    { ...answers.WITHDRAWAL, receipt: RECEIPT },
    RECEIVED,
  ),
  own('get /withdrawals/{withdrawal_id}', `/withdrawals/${ORDER_ID}`, 'withdrawal', answers.WITHDRAWAL),
]

export const SECRET = 'never-to-be-repeated'
/** Endpoints that answer a page or a file, or from more than one method: each has a test file instead of a row. */
export const ELSEWHERE = [
  'get /info',
  'get /attestation/leader',
  'get /evidences/{file}',
  'get /swagger',
  'get /swagger/json',
  'get /swagger/style.css',
  'get /swagger/streams',
  'get /swagger/llms.txt',
  'get /swagger/docs/{page}',
]
/** Refusals that routes or the edge decide before the venue is asked. */
export const EDGE = new Set<RefusalCode>([
  'token_missing',
  'token_invalid',
  'token_expired',
  'token_revoked',
  'rate_limited',
  'body_too_large',
  'content_type_unsupported',
  'json_malformed',
  'key_duplicate',
  'field_unknown',
  'field_missing',
  'field_invalid',
  'internal',
])

/** Rows that fit a route; the others are named by the first test of `endpoints.test.ts`. */
export const FITTING = ROWS.filter(({ endpoint }) => endpointOf(endpoint) !== undefined)

/** The endpoint that `get /orders` names; undefined for streams and unknown names. */
export function endpointOf(name: string): Endpoint | undefined {
  const mounted = MANIFEST.find(({ method, path }) => `${method} ${path}` === name)
  return mounted?.route.kind === 'endpoint' ? mounted.route : undefined
}
export const contractOf = (row: Row): Endpoint => {
  const found = endpointOf(row.endpoint)
  if (found === undefined) throw new Error(`no endpoint ${row.endpoint}`)
  return found
}
export const methodOf = (row: Row) => row.endpoint.split(' ')[0]!.toUpperCase()

function venueOf(
  { venue, own }: Row,
  act: (...args: unknown[]) => unknown,
  unexpected: string[],
): Partial<Venue> {
  const text = (...args: unknown[]) => JSON.stringify(act(...args))
  const texts = only<OwnTexts>('venue.own', own === undefined ? {} : { [own]: text }, unexpected)
  return { own: texts, ...(venue === undefined ? {} : { [venue]: act }) }
}

/** Runs `use` against a venue whose method behind the row does `act`. */
export async function against(
  row: Row,
  act: (...args: unknown[]) => unknown,
  use: (harness: Harness, send: (init?: CallInit) => Promise<Answered>) => Promise<void>,
  more: Record<string, unknown> = {},
): Promise<void> {
  const unexpected: string[] = []
  const harness = openHarness({
    unexpected,
    venue: { ...venueOf(row, act, unexpected), ...more },
    enclave: row.enclave === undefined ? {} : { [row.enclave]: act },
  })
  const send = (init: CallInit = {}) =>
    harness.call(methodOf(row), row.path, { ...(row.json === undefined ? {} : { json: row.json }), ...init })
  try {
    await use(harness, send)
  } finally {
    await harness.stop()
  }
}
export const refusing = (code: RefusalCode) => () => {
  throw new Refusal(code, { retry_after_ms: 1_400 })
}
