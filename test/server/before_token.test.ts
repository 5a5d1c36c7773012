/** Bytes that anyone can send before a token or a signature is checked: bounded, and read in linear time. */
import { afterEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { BODY_BYTES_MAX } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'
import { parserOf } from '../../protocol/wire/parse'
import { TokenRequest } from '../../protocol/wire/public'
import { parseBody, parseJson, readQuery } from '../../server/edge/body'
import { type Harness, openHarness } from '../kit/server/harness'
import { rawStatus } from '../kit/server/raw_http'

let harness: Harness
afterEach(() => harness?.stop())

/** Time of the fastest of a few runs, in milliseconds. */
function fastest(run: () => unknown): number {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 7; round += 1) {
    const began = performance.now()
    try {
      run()
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
    best = Math.min(best, performance.now() - began)
  }
  return best
}

/** Inputs of a given size that cost a careless reader the square of it. */
const HOSTILE: Record<string, (size: number) => () => unknown> = {
  'escaped quotes': (size) => () => parseJson(`"${'\\"'.repeat(size / 2)}"`),
  backslashes: (size) => () => parseJson(`"${'\\'.repeat(size & ~1)}"`),
  'many strings': (size) => () => parseJson(`[${'"",'.repeat(size / 3)}1]`),
  'many keys': (size) => {
    const members = Array.from({ length: size / 10 }, (_, at) => `"${at.toString(36)}":1`)
    return () => parseJson(`{${members.join(',')}}`)
  },
  depth: (size) => () => parseJson('['.repeat(size / 2) + ']'.repeat(size / 2)),
  'unknown fields': (size) => {
    const parse = parserOf(TokenRequest)
    const value = Object.fromEntries(Array.from({ length: size / 10 }, (_, at) => [`k${at}`, 1]))
    return () => parse(value)
  },
  'long field': (size) => {
    const parse = parserOf(TokenRequest)
    return () => parse({ api_key: 'a'.repeat(size), api_secret: 'b', passphrase: 'c' })
  },
  'query names': (size) => {
    const names = Array.from({ length: size / 6 }, (_, at) => at.toString(36))
    return () => readQuery(`http://localhost/?${names.join('&')}`)
  },
  'encoded query': (size) => {
    const names = Array.from({ length: size / 9 }, (_, at) => `%41${at.toString(36)}`)
    return () => readQuery(`http://localhost/?${names.join('&')}`)
  },
  'spaces in the content type': (size) => {
    const headers = { 'content-type': `application/json${' '.repeat(size)}; charset=utf-8x` }
    const request = new Request('http://localhost/', { headers })
    return () => parseBody(request, new Uint8Array(0))
  },
}

test('sixteen times the bytes cost about sixteen times the work, and never more than some milliseconds', () => {
  for (const [name, of] of Object.entries(HOSTILE)) {
    const [small, large] = [of(BODY_BYTES_MAX / 4), of(BODY_BYTES_MAX * 4)]
    // Compiles the code first.
    for (let round = 0; round < 50; round += 1) fastest(small)
    const linear = () => fastest(large) / Math.max(fastest(small), 0.02) < 80
    const quick = () => fastest(of(BODY_BYTES_MAX)) < 30
    // Work that grows with the square fails each time; a busy machine does not.
    const holds = (asked: () => boolean) => Array.from({ length: 10 }).some(asked)
    expect([name, holds(linear), holds(quick)]).toEqual([name, true, true])
  }
})

/** Status of a request, and whether the server is still answering others right after it. */
async function status(request: string): Promise<number> {
  const answered = await rawStatus(harness.listener.port, request)
  expect((await harness.call('GET', '/health', { token: null })).status).toBe(200)
  return answered
}

const HOST = 'Host: localhost\r\n'

test('heads beyond 16 KB, and lengths that are none, are rejected by the runtime', async () => {
  harness = openHarness()
  const login = `POST /auth/token HTTP/1.1\r\n${HOST}`
  expect(await status(`GET /health HTTP/1.1\r\n${HOST}x: ${'a'.repeat(20_000)}\r\n\r\n`)).toBe(431)
  expect(await status(`GET /health HTTP/1.1\r\n${HOST}${'a:b\r\n'.repeat(4_000)}\r\n`)).toBe(431)
  for (const length of ['-1', '1e3', '99999999999999999999', '0x10', ' '])
    expect([length, await status(`${login}Content-Length: ${length}\r\n\r\n`)]).toEqual([length, 400])
  expect(await status(`${login}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n`)).toBe(400)
})

test('paths, queries and hosts of any bytes are answered, none with 500', async () => {
  harness = openHarness({ venue: { time: () => ({ slot: 1, unix_ms: 2, slot_ms: 400 }) } })
  const long = 'a'.repeat(15_000)
  const targets = [
    '//[',
    '/%ff%zz',
    `/${long}`,
    `/health?${long}`,
    `/${'a/'.repeat(7_000)}`,
    '/evidences/%ff',
  ]
  targets.push(`/evidences/${long}`, `/ws/orders?token=${long}`, `/attestation?reportData=${long}`)
  for (const target of targets) {
    const answered = await status(`GET ${target} HTTP/1.1\r\n${HOST}\r\n`)
    expect([target.slice(0, 30), answered >= 200 && answered < 500]).toEqual([target.slice(0, 30), true])
  }
  for (const host of ['[::bad', 'a b%%', '', '/////////////', long]) {
    const answered = await status(`GET /time HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect([host.slice(0, 10), answered]).toEqual([
      host.slice(0, 10),
      host === '[::bad' || host === long ? 200 : 400,
    ])
  }
  expect(harness.unexpected).toEqual([])
})

test('a body beyond its bound is rejected as soon as that is known, in one chunk or in thousands', async () => {
  harness = openHarness()
  const login = `POST /auth/token HTTP/1.1\r\n${HOST}`
  expect(await status(`${login}Content-Length: ${BODY_BYTES_MAX + 1}\r\n\r\n`)).toBe(413)
  const chunks = '1\r\na\r\n'.repeat(BODY_BYTES_MAX + 1)
  expect(await status(`${login}Transfer-Encoding: chunked\r\n\r\n${chunks}`)).toBe(413)
  // The last chunk is missing: the answer does not wait for it.
  expect(await status(`${login}Transfer-Encoding: chunked\r\n\r\n8000\r\n${'a'.repeat(0x8000)}\r\n`)).toBe(
    413,
  )
})

test('a route that needs a token answers before its body has arrived', async () => {
  harness = openHarness()
  expect(await status(`POST /orders HTTP/1.1\r\n${HOST}Content-Length: 1000000\r\n\r\nabc`)).toBe(401)
  const upgrade = 'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a\r\n'
  expect(await status(`GET /ws/orders?token=${'a'.repeat(14_000)} HTTP/1.1\r\n${HOST}${upgrade}\r\n`)).toBe(
    401,
  )
})

test('bodies that never arrive hold nothing but their connections', async () => {
  harness = openHarness()
  const { port } = harness.listener
  const head = `POST /auth/token HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n`
  const heads = [`${head}Content-Length: 100\r\n\r\n{`, `${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`]
  const sockets = Array.from({ length: 200 }, (_, at) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(heads[at % 2]!))
    socket.on('error', () => undefined)
    return socket
  })
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
  expect((await harness.call('GET', '/health', { token: null })).status).toBe(200)
  for (const socket of sockets) socket.destroy()
  await Bun.sleep(50)
  expect(harness.lines.filter((line) => line.includes('internal_error'))).toEqual([])
})
