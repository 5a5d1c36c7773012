/** One row per endpoint: a request that fits its contract, the call it leads to, and what that call gives. */
import type { Enclave } from '../../enclave/contract'
import type { OwnTexts, Venue } from '../../engine/venue'
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
  /** The answer where it is not what the method gives. */
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
  write('post /orders', bodies.PLACE, 'place', bodies.PLACED, RECEIVED),
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
