/** Frames of the sockets, in order: hello, snapshot, events, gaps, replies and errors (api.md "Streams"). */
import { expect, test } from 'bun:test'
import { Refusal } from '../../protocol/refusals'
import { CancelParams, ModifyParams, PlaceRequest } from '../../protocol/wire/trading'
import { parserOf } from '../../protocol/wire/values'
import { ACCOUNT, TOKEN } from '../kit/server/harness'
import { Stream, snapshotOf, socketSite } from '../kit/server/socket_site'
import { CANCEL, CANCELLED, event, MODIFY, ORDER_ID, PLACE, PLACED } from '../routes/bodies'

const { serve, connect } = socketSite()

test('a reader gets hello, its snapshot and then events in order', async () => {
  const stream = new Stream()
  stream.seq_last = 812
  serve({ venue: stream.venue() })
  const peer = await connect(`/ws/orders?token=${TOKEN}`)
  expect(await peer.next()).toEqual({
    type: 'hello',
    stream: 'orders',
    account_id: ACCOUNT,
    seq_first: 1,
    seq_last: 812,
    heartbeat_ms: 5000,
    slot: 309,
    unix_ms: 1,
  })
  expect(await peer.next()).toMatchObject({ type: 'snapshot', seq: 812, orders: [{ order_id: ORDER_ID }] })
  stream.tell(event(813, 'order.filled'))
  expect(await peer.next()).toEqual({ type: 'event', ...event(813, 'order.filled') })
})

test('a venue receives parsed requests, equal from REST and from a socket', async () => {
  const received: unknown[] = []
  const take =
    <R>(result: R) =>
    async (...args: unknown[]) => {
      received.push(args.slice(0, 2))
      return result
    }
  const modified = { old_order_id: ORDER_ID, ...PLACED }
  const writes = { place: take(PLACED), cancel: take(CANCELLED), modify: take(modified) }
  const harness = serve({ venue: new Stream().venue(writes) })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  const sent: [string, string, string, unknown, (value: unknown) => unknown][] = [
    ['POST', '/orders', 'order.place', PLACE, parserOf(PlaceRequest)],
    ['DELETE', `/orders/${ORDER_ID}`, 'order.cancel', CANCEL, parserOf(CancelParams)],
    ['PUT', `/orders/${ORDER_ID}`, 'order.modify', MODIFY, parserOf(ModifyParams)],
  ]
  for (const [method, path, op, json, parse] of sent) {
    const params = op === 'order.place' ? json : { order_id: ORDER_ID, ...(json as object) }
    expect((await harness.call(method, path, { json })).status).toBeLessThan(300)
    peer.send({ op, id: op, params })
    while ((await peer.next()).id !== op);
    const wanted = [ACCOUNT, parse(params)]
    expect(received.splice(0)).toStrictEqual([wanted, wanted])
  }
})

test('the token may come in the header', async () => {
  const stream = new Stream()
  serve({ venue: stream.venue() })
  const peer = await connect('/ws/fills', { authorization: `Bearer ${TOKEN}` })
  expect(await peer.next()).toMatchObject({ type: 'hello', stream: 'fills' })
})

test('a snapshot newer than the stream waits for the events it contains', async () => {
  const stream = new Stream()
  stream.seq_last = 4
  serve({
    venue: stream.venue(snapshotOf(() => ({ seq: 6, orders: [] }))),
  })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  for (const seq of [5, 6, 7]) stream.tell(event(seq))
  const frames = [
    await peer.next(),
    await peer.next(),
    await peer.next(),
    await peer.next(),
    await peer.next(),
  ]
  expect(frames.map((frame) => [frame.type, frame.seq])).toEqual([
    ['hello', undefined],
    ['event', 5],
    ['event', 6],
    ['snapshot', 6],
    ['event', 7],
  ])
})

test('a resuming reader gets the events after its seq and no snapshot', async () => {
  const stream = new Stream()
  stream.seq_last = 9
  serve({ venue: stream.venue() })
  const peer = await connect(`/ws/trading?token=${TOKEN}&after=7`)
  expect(stream.after).toBe(7)
  for (const seq of [8, 9]) stream.tell(event(seq))
  expect(await peer.next()).toMatchObject({ type: 'hello' })
  expect(await peer.next()).toMatchObject({ type: 'event', seq: 8 })
  expect(await peer.next()).toMatchObject({ type: 'event', seq: 9 })
})

test('a reader older than the log gets a gap, the kept events, and the snapshot where it is true', async () => {
  const stream = new Stream()
  stream.seq_first = 41
  stream.seq_last = 42
  serve({ venue: stream.venue() })
  const peer = await connect(`/ws/orders?token=${TOKEN}&after=1`)
  stream.gap(2, 40)
  stream.tell(event(41))
  stream.tell(event(42))
  expect(await peer.next()).toMatchObject({ type: 'hello' })
  expect(await peer.next()).toEqual({ type: 'gap', seq_from: 2, seq_to: 40 })
  expect(await peer.next()).toMatchObject({ type: 'event', seq: 41 })
  expect(await peer.next()).toMatchObject({ type: 'event', seq: 42 })
  expect(await peer.next()).toMatchObject({ type: 'snapshot', seq: 42 })
})

test('orders and fills push only their kinds', async () => {
  const stream = new Stream()
  serve({ venue: stream.venue() })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  stream.tell(event(1, 'order.accepted'))
  stream.tell(event(2, 'fill.matched'))
  expect(await peer.next()).toMatchObject({ type: 'event', seq: 2, kind: 'fill.matched' })
})

test('replies come in the order of the commands, even if a later one finishes first', async () => {
  const stream = new Stream()
  let finish: (() => void) | undefined
  serve({
    venue: stream.venue({
      place: () =>
        new Promise((resolve) => {
          finish = () => resolve(PLACED)
        }),
      cancel: async () => {
        // Done at once, yet after the place in line.
        setTimeout(() => finish?.(), 0)
        return CANCELLED
      },
    }),
  })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  await peer.next()
  await peer.next()
  peer.send({ op: 'order.place', id: '1', params: PLACE })
  peer.send({ op: 'order.cancel', id: '2', params: { order_id: ORDER_ID, ...CANCEL } })
  expect(await peer.next()).toEqual({ type: 'reply', id: '1', result: PLACED })
  expect(await peer.next()).toEqual({ type: 'reply', id: '2', result: CANCELLED })
})

test('a bad frame gets one error and the socket stays', async () => {
  const stream = new Stream()
  serve({ venue: stream.venue() })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  await peer.next()
  await peer.next()
  const faults: [string | Uint8Array, Record<string, unknown>][] = [
    ['{', { code: 'json_malformed' }],
    ['[]', { code: 'frame_invalid' }],
    [new Uint8Array([1, 2]), { code: 'frame_invalid' }],
    ['{"op":"ping","op":"ping","id":"1"}', { code: 'key_duplicate' }],
    ['{"op":"ping"}', { code: 'frame_invalid', field: 'id' }],
    [`{"op":"ping","id":"${'x'.repeat(65)}"}`, { code: 'frame_invalid', field: 'id' }],
    ['{"op":"toString","id":"1"}', { code: 'frame_invalid', field: 'op', id: '1' }],
    ['{"op":"ping","id":"1","secret_word":1}', { code: 'field_unknown', id: '1' }],
    [
      JSON.stringify({ op: 'order.place', id: '1', params: { ...PLACE, amount: 5 } }),
      { code: 'field_invalid', field: 'amount' },
    ],
    [JSON.stringify({ op: 'order.place', id: '1' }), { code: 'field_invalid', field: 'params' }],
  ]
  for (const [message, expected] of faults) {
    peer.sendRaw(message)
    const frame = await peer.next()
    expect(frame).toMatchObject({ type: 'error', applied: 'no', ...expected })
    expect(JSON.stringify(frame)).not.toContain('secret_word')
  }
  peer.send({ op: 'ping', id: 'last' })
  expect(await peer.next()).toEqual({
    type: 'reply',
    id: 'last',
    result: { slot: 309, unix_ms: 1, slot_ms: 400 },
  })
})

test('a refusal of the venue is an error frame with its facts', async () => {
  const stream = new Stream()
  serve({
    venue: stream.venue({
      place: async () => {
        throw new Refusal('nonce_stale', { nonce_last: '7' })
      },
    }),
  })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  await peer.next()
  await peer.next()
  peer.send({ op: 'order.place', id: 'a', params: PLACE })
  expect(await peer.next()).toMatchObject({
    type: 'error',
    id: 'a',
    code: 'nonce_stale',
    applied: 'no',
    nonce_last: '7',
  })
})

test('orders by socket take from the limit that REST takes from', async () => {
  const stream = new Stream()
  const taken: unknown[] = []
  serve({
    venue: stream.venue({
      takeLimit({ access, account_id }, cost) {
        taken.push([account_id, access, cost])
        if (cost === 1) throw new Refusal('rate_limited', { retry_after_ms: 20 })
        return { capacity: 100, refill_per_s: 50, remaining: 1, retry_after_ms: 0 }
      },
    }),
  })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  await peer.next()
  await peer.next()
  peer.send({ op: 'order.place', id: '1', params: PLACE })
  expect(await peer.next()).toMatchObject({ type: 'error', code: 'rate_limited', retry_after_ms: 20 })
  expect(taken).toContainEqual([ACCOUNT, 'trade', 1])
})

test('orders and fills take no commands', async () => {
  const stream = new Stream()
  serve({ venue: stream.venue() })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  peer.send({ op: 'order.place', id: '1', params: PLACE })
  expect(await peer.next()).toMatchObject({ type: 'error', code: 'frame_invalid', field: 'op' })
})
