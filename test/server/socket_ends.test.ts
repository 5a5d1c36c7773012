/** Sockets end by tokens, restarts, floods and disconnects, each reported to the venue; upgrades reject bad requests. */
import { expect, test } from 'bun:test'
import { connect as openConnection } from 'node:net'
import { Refusal } from '../../protocol/refusals'
import type { SystemStatus } from '../../protocol/wire/trading'
import { REPLIES_MAX, SOCKETS_TICK_MS } from '../../server/limits'
import { type Harness, session, TOKEN } from '../kit/server/harness'
import { Stream, socketSite } from '../kit/server/socket_site'
import { STATUS } from '../routes/answers'
import { event, PLACE, PLACED } from '../routes/bodies'

const { serve, connect } = socketSite()
let harness: Harness

/** A socket whose bytes a test writes itself; `ended` has what came after the head of the answer. */
async function rawSocket(port: number, headers = '') {
  const socket = openConnection(port, '127.0.0.1')
  const opened = Promise.withResolvers<string>()
  const ended = Promise.withResolvers<Buffer>()
  let received = Buffer.alloc(0)
  socket.on('data', (bytes: Buffer) => {
    received = Buffer.concat([received, bytes])
    const end = received.indexOf('\r\n\r\n')
    if (end !== -1) opened.resolve(received.subarray(0, end).toString())
  })
  socket.on('error', ended.reject)
  socket.on('close', () => ended.resolve(received.subarray(received.indexOf('\r\n\r\n') + 4)))
  socket.write(
    `GET /ws/fills HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nUpgrade: websocket\r\n` +
      `Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n`,
  )
  return { socket, head: await opened.promise, ended: ended.promise }
}

test('an ended session closes its socket with 4401', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue() })
  const peer = await connect(`/ws/orders?token=${TOKEN}`)
  await peer.next()
  stream.sink.ended()
  expect(await peer.closed()).toBe(4401)
  expect(stream.closed).toBeGreaterThan(0)
})

test('a warning comes a minute before the token expires, and the socket closes with it', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue() })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  harness.clock.ms += 840_000
  harness.app.sockets.tick()
  expect(await peer.next()).toEqual({ type: 'warning', reason: 'token_expiring', expires_in_ms: 60_000 })
  expect(await peer.next()).toMatchObject({ type: 'heartbeat' })
  harness.clock.ms += 60_000
  harness.app.sockets.tick()
  expect(await peer.closed()).toBe(4401)
})

test('past the end of its token a socket runs no command and sends no event, whenever the next tick comes', async () => {
  const places: unknown[] = []
  const stream = new Stream()
  const place = async (...args: unknown[]) => {
    places.push(args)
    return PLACED
  }
  harness = serve({ venue: stream.venue({ place }) })
  const asking = await connect(`/ws/trading?token=${TOKEN}`)
  await asking.next()
  await asking.next()
  const listening = await connect(`/ws/fills?token=${TOKEN}`)
  await listening.next()
  harness.clock.ms += 900_000
  asking.send({ op: 'order.place', id: '1', params: PLACE })
  stream.tell(event(1, 'fill.matched'))
  expect(await asking.closed()).toBe(4401)
  expect(await listening.next().catch(String)).toBe('Error: closed with 4401')
  expect(await listening.closed()).toBe(4401)
  expect(places).toEqual([])
})

test('auth.refresh follows a newer token of the same account', async () => {
  const stream = new Stream()
  harness = serve({
    venue: stream.venue({ refresh: () => session(harness.clock, 2_000_000) }),
  })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  peer.send({ op: 'auth.refresh', id: 'r', token: TOKEN })
  expect(await peer.next()).toEqual({ type: 'reply', id: 'r', result: { expires_in_ms: 2_000_000 } })
  expect(stream.renewed.length).toBe(1)
  harness.clock.ms += 900_000
  harness.app.sockets.tick()
  expect(await peer.next()).toMatchObject({ type: 'heartbeat' })
})

test('of a newer token, too, there is a warning before it expires', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue({ refresh: () => session(harness.clock, 900_000) }) })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  for (const expires_in_ms of [60_000, 50_000]) {
    harness.clock.ms += 900_000 - expires_in_ms
    harness.app.sockets.tick()
    expect(await peer.next()).toEqual({ type: 'warning', reason: 'token_expiring', expires_in_ms })
    expect(await peer.next()).toMatchObject({ type: 'heartbeat' })
    peer.send({ op: 'auth.refresh', id: 'r', token: TOKEN })
    expect(await peer.next()).toMatchObject({ type: 'reply' })
  }
})

test('heartbeats carry the last seq', async () => {
  const stream = new Stream()
  stream.seq_last = 5
  harness = serve({ venue: stream.venue() })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  harness.clock.ms += 5_000
  harness.app.sockets.tick()
  expect(await peer.next()).toEqual({ type: 'heartbeat', seq: 5, slot: 309, unix_ms: 1 })
})

test('each change of readiness is pushed within a tick, and nothing without a change', async () => {
  const stream = new Stream()
  let status: SystemStatus = STATUS
  harness = serve({ venue: stream.venue({ status: () => status }) })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  const { tick } = harness.app.sockets
  tick()
  // The slot and the lag change all the time.
  status = { ...STATUS, chain: { ...STATUS.chain, slot: STATUS.chain.slot + 1 } }
  tick()
  status = { ...STATUS, ready: false, reasons: ['lease_lost: a'] }
  tick()
  tick()
  status = { ...STATUS, ready: false, reasons: ['reopening: b'], reopens_slot: 320 }
  tick()
  status = STATUS
  tick()
  expect(await peer.next()).toEqual({ type: 'status', ready: false, reasons: ['lease_lost: a'] })
  const reopening = { type: 'status', ready: false, reasons: ['reopening: b'], reopens_slot: 320 }
  expect(await peer.next()).toEqual(reopening)
  expect(await peer.next()).toEqual({ type: 'status', ready: STATUS.ready, reasons: STATUS.reasons })
  expect(SOCKETS_TICK_MS).toBeLessThanOrEqual(1_000)
})

test('a restart says bye and closes with 1012, and is no disconnect', async () => {
  const stream = new Stream()
  const disconnected: string[] = []
  harness = serve({
    venue: stream.venue({
      armDisconnect: async () => undefined,
      disconnected: async (_account, origin) => void disconnected.push(origin),
    }),
  })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  await peer.next()
  await peer.next()
  peer.send({ op: 'cancel_on_disconnect', id: '1', params: { armed: true } })
  await peer.next()
  stream.sink.bye('upgrade', 15_000)
  expect(await peer.next()).toEqual({ type: 'bye', reason: 'upgrade', retry_after_ms: 15_000 })
  expect(await peer.closed()).toBe(1012)
  expect(disconnected).toEqual([])
})

test('an armed socket that goes away is reported under the origin of its orders', async () => {
  const stream = new Stream()
  const origins: (string | undefined)[] = []
  const gone = Promise.withResolvers<string>()
  harness = serve({
    venue: stream.venue({
      armDisconnect: async (_account, origin) => void origins.push(origin),
      place: async (_account, _request, origin) => {
        origins.push(origin)
        return PLACED
      },
      disconnected: async (_account, origin) => gone.resolve(origin),
    }),
  })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  await peer.next()
  await peer.next()
  peer.send({ op: 'cancel_on_disconnect', id: '1', params: { armed: true } })
  expect(await peer.next()).toEqual({ type: 'reply', id: '1', result: { armed: true } })
  peer.send({ op: 'order.place', id: '2', params: PLACE })
  await peer.next()
  const answers = harness.app.meters.read().find(({ name }) => name === 'tacit_http_answers_total')
  expect(answers!.value).toBe(2)
  peer.close()
  const origin = await gone.promise
  expect(origins).toEqual([origin, origin])
})

test('a frame beyond 16384 bytes closes with 1009', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue() })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  await peer.next()
  peer.sendRaw('x'.repeat(16_385))
  expect(await peer.closed()).toBe(1009)
})

test('a flood of frames closes with 4429', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue() })
  const peer = await connect(`/ws/fills?token=${TOKEN}`)
  for (let sent = 0; sent < 501; sent += 1) peer.send({ op: 'ping', id: '1' })
  expect(await peer.closed()).toBe(4429)
  const frames = harness.app.meters.read().find(({ name }) => name === 'tacit_socket_frames_received_total')
  expect(frames!.value).toBe(501)
})

test('the command after the most that wait for their reply closes with 4429', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue({ place: () => new Promise(() => undefined) }) })
  const peer = await connect(`/ws/trading?token=${TOKEN}`)
  const meter = (of: string) => harness.app.meters.read().find(({ name }) => name === of)!.value
  for (let sent = 1; sent <= REPLIES_MAX; sent += 1) {
    peer.send({ op: 'order.place', id: String(sent), params: PLACE })
    while (meter('tacit_socket_frames_received_total') < sent) await Bun.sleep(0)
    harness.clock.ms += 5
  }
  expect(meter('tacit_sockets')).toBe(1)
  peer.send({ op: 'order.place', id: 'more', params: PLACE })
  expect(await peer.closed()).toBe(4429)
})

test('pings and pongs of the protocol count like messages', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue() })
  for (const opcode of [0x9, 0xa]) {
    const { socket, ended } = await rawSocket(harness.listener.port)
    // An empty control frame, masked as a client's must be.
    const frame = Uint8Array.of(0x80 | opcode, 0x80, 0, 0, 0, 0)
    for (let sent = 0; sent < 500; sent += 1) socket.write(frame)
    socket.write(frame)
    expect((await ended).toString('hex')).toContain(`880a${(4429).toString(16)}`)
  }
})

test('an offered subprotocol is not taken up, because no stream speaks one', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue() })
  const { head, socket } = await rawSocket(harness.listener.port, 'Sec-WebSocket-Protocol: other, tacit\r\n')
  expect(head).toStartWith('HTTP/1.1 101 ')
  expect(head.toLowerCase()).not.toContain('sec-websocket-protocol')
  socket.destroy()
})

test('a socket that the venue refuses takes no place', async () => {
  const stream = new Stream()
  const { subscribe } = stream.venue()
  let refuses = true
  const once: typeof subscribe = async (...args) => {
    if (refuses) throw new Refusal('after_invalid')
    return subscribe!(...args)
  }
  harness = serve({ venue: stream.venue({ subscribe: once }), options: { sockets_per_account_max: 1 } })
  const open = () => connect(`/ws/fills?token=${TOKEN}`)
  expect(await open().then(String, () => 'refused')).toBe('refused')
  refuses = false
  expect(await (await open()).next()).toMatchObject({ type: 'hello' })
})

test('the bounds on sockets refuse the next one and free their place when one closes', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue(), options: { sockets_per_account_max: 1 } })
  const first = await connect(`/ws/fills?token=${TOKEN}`)
  const upgrade = {
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  }
  const refused = await harness.call('GET', '/ws/fills', { headers: upgrade })
  expect([refused.status, refused.json.code]).toEqual([429, 'connection_limit'])
  first.close()
  await first.closed()
  while (harness.app.sockets.count() > 0) await Bun.sleep(0)
  await connect(`/ws/fills?token=${TOKEN}`)
})

test('sockets of credentials that only read take no place from trading ones', async () => {
  const stream = new Stream()
  const authenticate = (token: string) =>
    ({ ...session(harness.clock), access: token === TOKEN ? 'trade' : 'read' }) as const
  harness = serve({ venue: stream.venue({ authenticate }), options: { sockets_per_account_max: 1 } })
  await connect('/ws/fills?token=reading')
  expect(connect('/ws/fills?token=reading')).rejects.toThrow('refused')
  await connect(`/ws/trading?token=${TOKEN}`)
})

test('the bound of the venue is another refusal than the bound of the account', async () => {
  const stream = new Stream()
  harness = serve({ venue: stream.venue(), options: { sockets_max: 1 } })
  await connect(`/ws/fills?token=${TOKEN}`)
  const upgrade = {
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  }
  const { status, json } = await harness.call('GET', '/ws/fills', { headers: upgrade })
  expect([status, json.code]).toEqual([503, 'socket_limit'])
})

test('a refused upgrade is an HTTP answer in the order of checks', async () => {
  const stream = new Stream()
  stream.seq_last = 3
  harness = serve({ venue: stream.venue() })
  const upgrade = {
    upgrade: 'websocket',
    connection: 'Upgrade',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  }
  const refused = async (path: string, token: string | null) => {
    const { status, json } = await harness.call('GET', path, { token, headers: upgrade })
    return [status, json.code]
  }
  expect(await refused('/ws/orders', null)).toEqual([401, 'token_missing'])
  expect(await refused('/ws/orders?after=x', 'wrong')).toEqual([401, 'token_invalid'])
  expect(await refused(`/ws/orders?token=other`, TOKEN)).toEqual([401, 'token_invalid'])
  expect(await refused('/ws/orders?after=x', TOKEN)).toEqual([400, 'after_invalid'])
  expect(await refused('/ws/orders?after=4', TOKEN)).toEqual([400, 'after_invalid'])
  expect(await refused('/ws/orders?after=1&after=2', TOKEN)).toEqual([400, 'key_duplicate'])
  expect(await refused('/ws/orders?since=2', TOKEN)).toEqual([400, 'field_unknown'])
})

test('a plain GET of a socket path is answered 426', async () => {
  harness = serve()
  const { status, headers, json } = await harness.call('GET', '/ws/orders')
  expect([status, json.code, headers.get('upgrade')]).toEqual([426, 'upgrade_required', 'websocket'])
})
