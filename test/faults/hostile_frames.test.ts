/**
 * Hostile frames on every socket and hostile calls to the operator's listener of the real process. Goal: a bad frame costs one
 * error and the socket lives on; only the operator's own signature, once, moves the venue.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { VenueClient } from '../../client/api/venue_client'
import { operatorHeaders } from '../../protocol/bodies/signed_calls'
import { utf8 } from '../../protocol/bytes'
import { REFUSAL_BY_CODE, type RefusalCode } from '../../protocol/refusals'
import type { OperatorTarget } from '../../tools/account/call_operator'
import { PLACE } from '../routes/bodies'
import { MARKER, problemFaults, toldBy } from './kit/hostile_requests'
import { openAccount, openFrameSocket } from './kit/open_trader'
import { operatorNow, operatorTarget, VenueProcess, venueTransport } from './kit/venue_process'

const FRAME: readonly RefusalCode[] = ['frame_invalid']
const place = (params: object) => JSON.stringify({ op: 'order.place', id: 'p', params })
const BAD_FRAMES: [string, string | Uint8Array<ArrayBuffer>, readonly RefusalCode[]][] = [
  ['binary', new Uint8Array([1, 2, 3]), FRAME],
  ['no JSON', `{${MARKER}`, ['json_malformed']],
  ['nothing', '', ['json_malformed']],
  ['a list', `["${MARKER}"]`, FRAME],
  ['null', 'null', FRAME],
  ['no id', '{"op":"ping"}', FRAME],
  ['a number for an id', '{"op":"ping","id":1}', FRAME],
  ['an id of 65 characters', JSON.stringify({ op: 'ping', id: 'x'.repeat(65) }), FRAME],
  ['an unknown operation', `{"op":"${MARKER}","id":"1"}`, FRAME],
  ['an inherited name for an operation', '{"op":"constructor","id":"1"}', FRAME],
  ['__proto__ for an operation', '{"op":"__proto__","id":"1"}', FRAME],
  ['an unknown member', `{"op":"ping","id":"1","${MARKER}":1}`, ['field_unknown']],
  ['a key named twice', '{"op":"ping","id":"1","id":"2"}', ['key_duplicate']],
  [
    'nesting',
    `{"op":"ping","id":"1","params":${'['.repeat(7_000)}${']'.repeat(7_000)}}`,
    ['field_unknown', 'json_malformed'],
  ],
  ['a token that is none', `{"op":"auth.refresh","id":"1","token":"${MARKER}"}`, ['token_invalid']],
  ['no token to refresh with', '{"op":"auth.refresh","id":"1"}', ['field_missing']],
]
const BAD_COMMANDS: typeof BAD_FRAMES = [
  ['no params', '{"op":"order.place","id":"p"}', ['field_missing', 'field_invalid']],
  ['a number for a text', place({ ...PLACE, amount: 1 }), ['field_invalid']],
  ['upper case', place({ ...PLACE, signature: PLACE.signature.toUpperCase() }), ['field_invalid']],
  ['an unknown field', place({ ...PLACE, [MARKER]: 1 }), ['field_unknown']],
  ['a signature of nobody', place(PLACE), ['signature_invalid', 'expiry_too_soon']],
]

describe('hostile frames and operator calls', () => {
  const venue = new VenueProcess()
  let client: VenueClient
  let target: OperatorTarget

  beforeAll(async () => {
    await venue.start()
    client = (await openAccount(venue, 'mallory')).client
    target = await operatorTarget(venue)
  }, 180_000)
  afterAll(() => venue.remove())

  test.each(['/ws/trading', '/ws/orders', '/ws/fills'])(
    '%s: each bad frame gets one error and the socket stays',
    async (path) => {
      const socket = await openFrameSocket(client, path)
      const faults: string[] = []
      for (const [what, message, codes] of [...BAD_FRAMES, ...(path === '/ws/trading' ? BAD_COMMANDS : [])]) {
        socket.send(message)
        const frame = await socket.next()
        const code = frame['code'] as RefusalCode
        if (frame['type'] !== 'error' || !codes.includes(code))
          faults.push(`${what}: ${frame['type']} ${code}`)
        if (!REFUSAL_BY_CODE.has(code) || frame['applied'] !== 'no')
          faults.push(`${what}: ${JSON.stringify(frame)}`)
        if (JSON.stringify(frame).includes(MARKER)) faults.push(`${what}: echoed`)
      }
      expect(faults).toEqual([])
      socket.send('{"op":"ping","id":"alive"}')
      expect(await socket.next()).toMatchObject({ type: 'reply', id: 'alive' })
      socket.close()
    },
  )

  test('a socket that only listens takes no command', async () => {
    const socket = await openFrameSocket(client, '/ws/orders')
    socket.send(place(PLACE))
    expect(await socket.next()).toMatchObject({ type: 'error', id: 'p', code: 'frame_invalid' })
    socket.close()
  })

  test('a frame of more than 16 KB costs the socket: 1009', async () => {
    const socket = await openFrameSocket(client, '/ws/trading')
    socket.send('x'.repeat(17_000))
    expect(await socket.closed).toBe(1009)
  })

  test('a flood costs the socket: 4429', async () => {
    const socket = await openFrameSocket(client, '/ws/trading')
    for (let i = 0; i < 2_000; i++) socket.send('{"op":"ping","id":"flood"}')
    expect(await socket.closed).toBe(4429)
  })

  test.each([
    ['a token of nobody', 'token=nobody', 401, 'token_invalid'],
    ['no token', '', 401, 'token_missing'],
    ['a resume point that is no number', 'token=T&after=x', 400, 'after_invalid'],
    ['a resume point ahead of the log', 'token=T&after=999999', 400, 'after_invalid'],
    ['an unknown query', `token=T&${MARKER}=1`, 400, 'field_unknown'],
    ['two tokens', 'token=T&token=U', 401, 'token_invalid'],
  ] as const)('an upgrade with %s is refused before it happens', async (_, query, status, code) => {
    const { transport } = client
    const path = `/ws/trading?${query.replace('=T', `=${await client.token()}`)}`
    const headers = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': btoa('0123456789abcdef'),
    }
    const told = await toldBy(await transport.fetch(path, { headers }))
    expect(problemFaults(told, [code])).toEqual([])
    expect(told.status).toBe(status)
  })

  const operator = (method: string, path: string, headers: Record<string, string>, body?: string) =>
    fetch(target.url + path, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body }),
      tls: { ca: target.ca! },
    } as RequestInit)
  const signed = (method: string, path: string, body: string, change: object = {}) => {
    const now_ms = operatorNow()
    const call = {
      venue: target.venue,
      nonce: BigInt(now_ms),
      expiry_unix_s: Math.floor(now_ms / 1000) + 60,
      method,
      target: path,
      body: utf8(body),
      ...change,
    }
    return operatorHeaders(call, target.operator_seed)
  }

  test('the operator listener does nothing without a signature over exactly this call', async () => {
    const body = `{"${MARKER}":1}`
    const attempts: [string, Promise<Response>][] = [
      ['no signature', operator('POST', '/drain', {})],
      ['metrics without one', operator('GET', '/metrics', {})],
      ['an account without one', operator('POST', '/accounts', {}, body)],
      ['one for another path', operator('POST', '/drain', signed('POST', '/accounts', ''))],
      ['one for another method', operator('POST', '/drain', signed('GET', '/drain', ''))],
      ['one for another body', operator('POST', '/accounts', signed('POST', '/accounts', '{}'), body)],
      ['one for a query', operator('GET', '/metrics?a=b', signed('GET', '/metrics', ''))],
      ['one that expired', operator('POST', '/drain', signed('POST', '/drain', '', { expiry_unix_s: 1 }))],
      [
        'one for another venue',
        operator('POST', '/drain', signed('POST', '/drain', '', { venue: new Uint8Array(32) })),
      ],
      [
        'one of another key',
        operator(
          'POST',
          '/drain',
          operatorHeaders(
            {
              venue: target.venue,
              nonce: 1n,
              expiry_unix_s: 4_000_000_000,
              method: 'POST',
              target: '/drain',
              body: utf8(''),
            },
            new Uint8Array(32).fill(7),
          ),
        ),
      ],
      ['a bearer token', operator('POST', '/drain', { authorization: `Bearer ${await client.token()}` })],
    ]
    for (const [what, answer] of attempts) {
      const faults = problemFaults(await toldBy(await answer), ['operator_signature_invalid'])
      expect([what, faults]).toEqual([what, []])
    }
  })

  test('a call that was made is not made again', async () => {
    const headers = signed('GET', '/metrics', '')
    expect((await operator('GET', '/metrics', headers)).status).toBe(200)
    expect((await operator('GET', '/metrics', headers)).status).toBe(401)
  })

  test('a signed record that is none is refused', async () => {
    for (const body of ['{}', '[]', `{"${MARKER}":1}`, `"${MARKER}"`]) {
      const told = await toldBy(await operator('POST', '/accounts', signed('POST', '/accounts', body), body))
      expect([
        body,
        problemFaults(told, ['record_invalid', 'field_missing', 'field_unknown', 'field_invalid']),
      ]).toEqual([body, []])
    }
    expect(venue.runs).toBe(true)
    expect((await client.transport.fetch('/health')).status).toBe(200)
    expect(venue.output).not.toContain('"event":"internal_error"')
  })
})

/** The files that this process may open, less those it has open otherwise. */
const DESCRIPTORS = Number(
  /Max open files +(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 1_024,
)
/** Opened at once; the others wait for them. */
const AT_ONCE = 100
const CONNECTIONS = Math.min(2_000, AT_ONCE * Math.floor((DESCRIPTORS - 200) / AT_ONCE))
const GROWTH_BYTES_MAX = 256 * 1024 * 1024

const venue = new VenueProcess()
beforeAll(async () => void (await venue.start()), 180_000)
afterAll(() => venue.remove())

const POST = 'POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
/** Bytes of each connection behind its handshake; undefined: not even a handshake. */
const KINDS: readonly (string | undefined)[] = [
  undefined,
  '',
  'GET /time HTTP/1.1\r\nHost: loc',
  `${POST}Content-Length: 16000\r\n\r\n{"api_key":"`,
  `${POST}Transfer-Encoding: chunked\r\n\r\n4\r\n{"ap\r\n`,
  `${POST}Content-Length: 900000000\r\n\r\n${'x'.repeat(32_768)}`,
  'GET /ws/orders?token=nobody HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n',
]

function rssBytes(): number {
  const pages = Number(readFileSync(`/proc/${venue.pid}/statm`, 'utf8').split(' ')[1])
  return pages * 4_096
}

const descriptors = () => readdirSync(`/proc/${venue.pid}/fd`).length

/** Resolves once the connection is open and its bytes are sent, or once the venue closed it. */
function attack(port: number, sent: string | undefined): Promise<Socket> {
  return new Promise((resolve) => {
    const over = () => {
      if (sent) socket.write(sent)
      resolve(socket)
    }
    const options = { host: '127.0.0.1', port, rejectUnauthorized: false }
    const socket = sent === undefined ? connectTcp(options, over) : connectTls(options, over)
    socket.on('error', () => resolve(socket))
    socket.resume()
  })
}

async function answerMs(): Promise<number> {
  const begun = performance.now()
  expect((await venueTransport(venue).fetch('/time')).status).toBe(200)
  return performance.now() - begun
}

test(`${CONNECTIONS} unfinished connections keep no caller from an answer, and leave when they close`, async () => {
  const port = Number(new URL(venue.facts.url).port)
  const before = rssBytes()
  const quiet = descriptors()
  const held: Socket[] = []
  const waited: number[] = []
  for (let first = 0; first < CONNECTIONS; first += AT_ONCE) {
    const kinds = Array.from({ length: AT_ONCE }, (_, at) => KINDS[(first + at) % KINDS.length])
    held.push(...(await Promise.all(kinds.map((sent) => attack(port, sent)))))
    waited.push(await answerMs())
  }
  const grown = rssBytes() - before
  const open = held.filter((socket) => !socket.destroyed).length
  waited.sort((a, b) => a - b)
  const [median, worst] = [waited[waited.length >> 1]!, waited.at(-1)!]
  console.log(
    `${held.length} connections, ${open} still open, memory +${(grown / 1e6).toFixed(0)} MB, ` +
      `answers in ${median.toFixed(1)} ms, ${worst.toFixed(1)} ms at worst`,
  )
  expect(held).toHaveLength(CONNECTIONS)
  // Those with a huge body are answered and closed; the others wait for their own idle time.
  expect(open).toBeLessThan(CONNECTIONS)
  expect(grown).toBeLessThan(GROWTH_BYTES_MAX)
  expect(descriptors()).toBeGreaterThan(CONNECTIONS / 2)
  for (const socket of held) socket.destroy()
  // The one of the client that asks may stay.
  while (descriptors() > quiet + 1) await Bun.sleep(10)
  await answerMs()
  expect(venue.runs).toBe(true)
}, 120_000)
