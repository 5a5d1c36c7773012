/** A venue that answers nonsense leaves a request open, and neither hurries nor holds the one who waits. */
import { expect, test } from 'bun:test'
import { VenueClient } from '../../../client/api/venue_client'
import { SETTLE_RETRY_FIRST_MS, SETTLE_RETRY_MAX_MS } from '../../../client/limits'
import { Session } from '../../../client/session/session'
import { findAccepted, type Patience, settleRequest } from '../../../client/session/settle'
import { EvidenceUnavailable } from '../../../client/verify/collect/collect_evidence'
import { ReceiptRefused } from '../../../client/verify/verify_receipt'
import { prepareCancelAll } from '../../../client/wallet/prepare'
import { Wallet } from '../../../client/wallet/wallet'

const LOGIN = { api_key: 'k', api_secret: 's', passphrase: 'p', account_id: 'aa'.repeat(32) }
const SENT = { id: '11'.repeat(16), key_index: 0, after_seq: 0, kind: 'place', request: {} } as never
const limited = { code: 'rate_limited', message: 'later', status: 429, applied: 'no' }

const TOKEN = { access_token: 'T', expires_in: 900, account_id: LOGIN.account_id }
const ONCE: Patience = {
  patience_ms: 0,
  sent_before: true,
  isOver: () => true,
  isAwaited: () => false,
  isSameProcess: async () => false,
}
type Call = { method: string; path: string; body: unknown }
/** A client of a venue that answers so, and the calls that it made. */
function clientOf(answer: (call: Call) => Response) {
  const calls: Call[] = []
  const transport = {
    base_url: 'https://venue.test',
    webSocket: () => new WebSocket('wss://venue.test'),
    fetch: async (path: string, { method = 'GET', body }: RequestInit = {}) => {
      if (path === '/auth/token') return Response.json(TOKEN)
      const call = { method, path, body: body === undefined ? undefined : JSON.parse(String(body)) }
      calls.push(call)
      return answer(call)
    },
  }
  return { client: new VenueClient(transport, LOGIN), calls }
}
const [OLD, NEW] = ['22'.repeat(16), '33'.repeat(16)]
const refusedBy = (code: string, more: object = {}) =>
  Response.json({ code, message: 'no', status: 409, applied: 'no', ...more }, { status: 409 })

test('each kind of request goes to its own endpoint with its own body', async () => {
  const kinds = {
    place: ['POST', '/orders'],
    cancel: ['DELETE', `/orders/${OLD}`],
    modify: ['PUT', `/orders/${OLD}`],
    cancel_all: ['POST', '/orders/cancel-all'],
    dead_man: ['POST', '/orders/dead-man'],
    withdraw: ['POST', '/withdrawals'],
    reshape: ['POST', '/notes/reshape'],
  }
  for (const [kind, [method, path]] of Object.entries(kinds)) {
    const { client, calls } = clientOf(() => Response.json({ receipt: {} }))
    const request = { of: kind }
    const sent = { kind, id: NEW, key_index: 0, after_seq: 0, order_id: OLD, request } as never
    expect(await settleRequest(client, sent, ONCE)).toMatchObject({ status: 'accepted', id: NEW })
    expect(calls).toEqual([{ method, path, body: kind === 'cancel_all' ? [request] : request } as never])
  }
})

test('a refusal that may be of a resend is one only where the state of the venue shows that nothing was applied', async () => {
  const unknown = () => refusedBy('order_unknown')
  const order = (status: string, more = {}) => Response.json({ order_id: OLD, status, ...more })
  const cases: [string, string, (call: Call) => Response, string][] = [
    ['place', 'nonce_stale', unknown, 'refused'],
    ['place', 'nonce_stale', () => order('cancelled'), 'accepted'],
    ['place', 'nonce_stale', () => refusedBy('rate_limited'), 'unknown'],
    ['place', 'rate_limited', unknown, 'unknown'],
    ['modify', 'order_final', ({ path }) => (path.endsWith(OLD) ? order('filled') : unknown()), 'refused'],
    ['modify', 'order_final', () => order('accepted'), 'accepted'],
    ['modify', 'order_final', () => order('accepted', { pending: 'replace' }), 'unknown'],
    ['cancel', 'order_final', () => order('accepted'), 'unknown'],
    ['cancel', 'order_final', () => order('partially_filled'), 'unknown'],
    ['cancel', 'order_final', () => order('partially_filled', { pending: 'cancel' }), 'accepted'],
    ['cancel', 'order_final', () => order('filled'), 'accepted'],
    ['cancel', 'order_unknown', unknown, 'refused'],
    ['cancel', 'nonce_stale 8', () => order('accepted'), 'refused'],
    ['cancel', 'nonce_stale 7', () => order('accepted'), 'accepted'],
    ['cancel_all', 'nonce_stale 7', unknown, 'accepted'],
    ['cancel_all', 'nonce_stale 8', unknown, 'unknown'],
    ['dead_man', 'nonce_stale 7', unknown, 'accepted'],
    ['dead_man', 'nonce_stale', unknown, 'unknown'],
    ['withdraw', 'note_spent', () => refusedBy('withdrawal_unknown'), 'refused'],
    ['reshape', 'note_spent', () => refusedBy('reshape_unknown'), 'refused'],
    ['reshape', 'note_spent', () => Response.json({}), 'accepted'],
  ]
  for (const [kind, refusal, state, status] of cases) {
    const [code = '', nonce_last] = refusal.split(' ')
    const { client } = clientOf((call) =>
      call.method === 'GET' ? state(call) : refusedBy(code, { nonce_last }),
    )
    const request = { cancel_nonce: '7' }
    const sent = { kind, id: NEW, key_index: 0, after_seq: 0, order_id: OLD, request } as never
    const outcome = await settleRequest(client, sent, ONCE)
    expect([kind, refusal, outcome.status]).toEqual([kind, refusal, status])
    // The first attempt of all is rejected by its answer alone.
    const first = await settleRequest(client, sent, { ...ONCE, sent_before: false })
    expect([kind, refusal, first.status]).toEqual([kind, refusal, 'refused'])
  }
  const { client } = clientOf(({ method }) => (method === 'GET' ? unknown() : refusedBy('order_unknown')))
  const cancel = { kind: 'cancel', id: NEW, key_index: 0, after_seq: 0, order_id: OLD, request: {} } as never
  const awaited = { ...ONCE, isAwaited: (order_id: string) => order_id === OLD }
  expect(await settleRequest(client, cancel, awaited)).toMatchObject({ status: 'unknown' })
})

test('after a first attempt whose answer was lost, a refusal alone proves nothing', async () => {
  const retrying = {
    ...ONCE,
    sent_before: false,
    patience_ms: 2 * SETTLE_RETRY_FIRST_MS,
    isOver: () => false,
  }
  for (const [code, status] of [
    ['nonce_stale', 'accepted'],
    ['rate_limited', 'unknown'],
  ] as const) {
    const { client, calls } = clientOf(({ method }) => {
      if (method === 'GET') return Response.json({ order_id: NEW })
      if (calls.length === 1) throw new TypeError('the connection is lost')
      return refusedBy(code)
    })
    expect(await settleRequest(client, SENT, retrying)).toMatchObject({ status })
  }
})

test('a login that is refused while the state is read ends the request with that refusal', async () => {
  const sent = { kind: 'place', id: NEW, key_index: 0, after_seq: 0, request: {} } as never
  const { client } = clientOf(({ method }) =>
    refusedBy(method === 'GET' ? 'credentials_invalid' : 'nonce_stale'),
  )
  const failure = await settleRequest(client, sent, ONCE).catch((error: unknown) => error)
  expect(failure).toMatchObject({ code: 'credentials_invalid' })
})

test('a request that the venue shows is sent once more for its receipt, and is accepted without one, too', async () => {
  const place = { kind: 'place', id: NEW, key_index: 0, after_seq: 0, request: {} } as never
  const shown = (again: () => Response) =>
    clientOf(({ method }) => (method === 'GET' ? Response.json({ order_id: NEW }) : again()))
  const receipt = { seq: 7 }
  const kept = shown(() => refusedBy('order_exists', { result: { receipt } }))
  expect(await findAccepted(kept.client, place)).toEqual({ status: 'accepted', id: NEW, result: { receipt } })
  const busy = shown(() => refusedBy('rate_limited'))
  expect(await findAccepted(busy.client, place)).toEqual({ status: 'accepted', id: NEW })
  for (const { calls } of [kept, busy]) expect(calls.map(({ method }) => method)).toEqual(['GET', 'POST'])
  const { client, calls } = clientOf(() => refusedBy('order_unknown'))
  expect(await findAccepted(client, place)).toBeUndefined()
  expect(calls).toHaveLength(1)
})

test('the wait doubles to its bound, is never shorter than the venue asks, and ends with the session', async () => {
  const waits: number[] = []
  const real = globalThis.setTimeout
  globalThis.setTimeout = ((done: () => void, ms = 0) => {
    waits.push(ms)
    return real(done, 0)
  }) as never
  try {
    const answers = ['', '', '1000', '', '', '', '', '', '', '']
    const { client, calls } = clientOf(() =>
      refusedBy('rate_limited', { retry_after_ms: Number(answers[calls.length - 1]) || undefined }),
    )
    const isOver = () => calls.length === answers.length
    const outcome = await settleRequest(client, SENT, { ...ONCE, patience_ms: 3_600_000, isOver })
    expect(outcome.status).toBe('unknown')
    expect(calls).toHaveLength(answers.length)
    const own = answers
      .slice(1)
      .map((_, at) => Math.min(SETTLE_RETRY_FIRST_MS * 2 ** at, SETTLE_RETRY_MAX_MS))
    expect(waits).toEqual(own.map((ms, at) => (at === 2 ? Math.max(ms, 1_000) : ms)))
  } finally {
    globalThis.setTimeout = real
  }
})

test('answers without sense end as unknown when the patience is over', async () => {
  for (const answer of [
    ...['soon', '1e999', Number.NaN, null, -1, {}, [], true, 1e300].map((retry_after_ms) => ({
      ...limited,
      retry_after_ms,
    })),
    ...[
      null,
      7,
      'no',
      [],
      {},
      { code: 'order_exists' },
      { applied: 'no' },
      { ...limited, code: 'never_heard' },
    ],
  ]) {
    const { client, calls } = clientOf(() => Response.json(answer, { status: 429 }))
    const outcome = await settleRequest(client, SENT, { ...ONCE, patience_ms: 200, isOver: () => false })
    const is_known = Object(answer)['code'] === 'order_exists'
    expect([JSON.stringify(answer), outcome.status]).toEqual([
      JSON.stringify(answer),
      is_known ? 'accepted' : 'unknown',
    ])
    // The wait doubles from 50 ms.
    expect(calls.length).toBeLessThanOrEqual(4)
    // On the first attempt the process that took the command has its receipt.
    if (!is_known) continue
    const first = settleRequest(client, SENT, {
      ...ONCE,
      sent_before: false,
      isSameProcess: async () => true,
    })
    expect(await first.catch((error: unknown) => error)).toBeInstanceOf(ReceiptRefused)
  }
}, 120_000)

test('a venue that cannot be judged while it shows the order leaves the outcome open: the next attempt decides', async () => {
  const { client, calls } = clientOf(() => refusedBy('order_exists', { result: {} }))
  let judged = 0
  const outcome = await settleRequest(client, SENT, {
    ...ONCE,
    sent_before: false,
    patience_ms: 5_000,
    isOver: () => false,
    isSameProcess: async () => {
      if (judged++ === 0) throw new EvidenceUnavailable('no node leads yet')
      return false
    },
  })
  expect([outcome.status, judged, calls.length]).toEqual(['accepted', 2, 2])
})

/** A session that is made of these parts and follows nothing. */
const sessionOf = (parts: object): Session => Object.assign(Object.create(Session.prototype), parts)

test('a request of unknown outcome is sent once at a time, and can be settled again', async () => {
  let runs = 0
  const run = async () => ({ status: 'unknown', id: ++runs })
  const session = sessionOf({ under_way: new Map(), lanes: new Map(), run })
  await Promise.all([session['inLane'](SENT, true), session['inLane'](SENT, true)])
  expect(runs).toBe(1)
  await session['inLane'](SENT, true)
  expect(runs).toBe(2)
})

test('nothing is sent behind a request that a later nonce would leave without an outcome', async () => {
  const [before, sent] = [OLD, NEW].map((id) => ({ id, kind: 'cancel_all', key_index: 0 }) as never)
  const asked: string[] = []
  const outcomeOf = async ({ id }: { id: string }) => {
    asked.push(id)
    return { status: 'unknown', id }
  }
  const session = sessionOf({ outcomeOf, wallet: { state: { requests: [before, sent] } } })
  expect(await session['run'](sent!, false)).toMatchObject({ status: 'unknown', id: NEW })
  expect(asked).toEqual([OLD])
})

test('the receipt of an earlier request does not lower the position that later receipts must be behind', async () => {
  const wallet = new Wallet(new Uint8Array(32).fill(1))
  const venue = { identity: { venue: new Uint8Array(32) }, hasVerified: async () => true }
  const session = sessionOf({ wallet, venue, store: {}, receipt_seq: 9 })
  const request = prepareCancelAll(wallet, venue.identity.venue, 0)
  const sent = { id: NEW, kind: 'cancel_all', key_index: 0, after_seq: 0, request }
  for (const seq of [8, 10]) await session['receiptOf'](sent as never, { receipt: { seq } }, 0n)
  expect(session['receipt_seq']).toBe(10)
  await session['receiptOf'](sent as never, { receipt: { seq: 9 } }, 0n)
  expect(session['receipt_seq']).toBe(10)
})

test('a session that ended writes nothing later, and its position moves over a gap with the next event', async () => {
  const session = sessionOf({ over: { reason: undefined } })
  session['saveSoon']()
  expect(session['unsaved']).toBeUndefined()
  const wallet = new Wallet(new Uint8Array(32).fill(1))
  const parts = { venue: { info: { generation: 0 } }, options: {}, final: new Set(), waiters: new Set() }
  const over_gap = sessionOf({ ...parts, over: session['over'], wallet, passed_to: 7 })
  await over_gap['absorb']({ seq: 8, kind: 'order.accepted', data: {} } as never)
  expect(wallet.state.seq).toBe(8)
})
