/**
 * Hostile input on every route of the real process. Goal: each request meets the one refusal that names its fault and
 * echoes nothing of it; the process neither falls nor grows.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect } from 'node:tls'
import type { RefusalCode } from '../../protocol/refusals'
import type { SandboxFacts } from '../../sandbox/open_sandbox'
import {
  brokenLeaves,
  brokenTexts,
  MARKER,
  methodsByPath,
  problemFaults,
  SAMPLES,
  type Told,
  toldBy,
} from './kit/hostile_requests'
import { openAccount } from './kit/open_trader'
import { residentBytes, VenueProcess, venueTransport } from './kit/venue_process'

const QUIET_MS = 1_000

/** The answer; undefined when the connection ends without one. `url` picks the listener. */
function rawExchange(
  facts: SandboxFacts,
  url: string,
  request: string | Uint8Array,
): Promise<Told | undefined> {
  const { promise, resolve } = Promise.withResolvers<Told | undefined>()
  const { hostname, port } = new URL(url)
  const ca = readFileSync(facts.certificate)
  const socket = connect({ host: '127.0.0.1', port: Number(port), servername: hostname, ca }, () => {
    socket.write(request)
  })
  let answer = ''
  const end = (): void => {
    socket.destroy()
    resolve(parse(answer))
  }
  socket.on('data', (bytes) => {
    answer += bytes.toString('latin1')
    if (isWhole(answer)) end()
  })
  socket.on('error', end)
  socket.on('close', end)
  // A request that never ends gets no answer: the listener's own idle limit is far longer than a test waits.
  socket.setTimeout(QUIET_MS, end)
  return promise
}

function isWhole(answer: string): boolean {
  const head_end = answer.indexOf('\r\n\r\n')
  if (head_end === -1) return false
  const length = /content-length: *([0-9]+)/i.exec(answer.slice(0, head_end))
  return length === null || answer.length >= head_end + 4 + Number(length[1])
}

function parse(answer: string): Told | undefined {
  const status = /^HTTP\/1\.1 ([0-9]{3})/.exec(answer)
  if (status === null) return undefined
  const head_end = answer.indexOf('\r\n\r\n')
  const headers = answer.slice(0, head_end)
  const content_type = /content-type: *(.+)/i.exec(headers)?.[1]?.trim() ?? null
  return { status: Number(status[1]), content_type, headers, text: answer.slice(head_end + 4) }
}

type RawRequest = { what: string; bytes: string | Uint8Array }
const HOST = 'Host: localhost'
const END = '\r\n\r\n'

/** Paths that name a file, a folder above, or a known path in disguise; none of them is a route. */
const PATHS = [
  '/orders/../orders',
  '/./orders',
  '//orders',
  '/orders/',
  '/orders//',
  '/ORDERS',
  '/%6frders/x/y',
  '/orders%2f',
  '/orders%00',
  '/orders;a=b',
  '/orders/..%2f..%2fetc%2fpasswd',
  '/evidences/..%2f..%2fjournal',
  '/evidences/../../journal/0000000001.segment',
  '/evidences/%2e%2e/%2e%2e/operator.key',
  '/evidences/..\\..\\operator.key',
  '/evidences/%2e%2e%5coperator.key',
  '/swagger/../operator.key',
  '/swagger/%2e%2e/laptop.json',
  '/instruments/%00',
  '/instruments/%ff%fe',
  '/instruments/%',
  '/instruments/%zz',
  `/instruments/${MARKER}`,
  `/${MARKER}`,
  `/orders/${MARKER}`,
  `/${'a/'.repeat(2_000)}`,
  '/constructor',
  '/__proto__',
  '/orders/__proto__',
  '/metrics',
  '/accounts',
  '/drain',
  '/.env',
  `http://${MARKER}/orders`,
  '/orders#fragment',
]
const PATH_TRICKS: RawRequest[] = PATHS.map((path) => ({
  what: `GET ${path.slice(0, 60)}`,
  bytes: `GET ${path} HTTP/1.1\r\n${HOST}${END}`,
}))

const post = (headers: string, body = '') =>
  `POST /auth/token HTTP/1.1\r\n${HOST}\r\nContent-Type: application/json\r\n${headers}${END}${body}`

/** Not a request: answered with an error or not at all. */
const BAD_FRAMING: RawRequest[] = [
  { what: 'noise', bytes: crypto.getRandomValues(new Uint8Array(4_096)) },
  { what: 'no host', bytes: `GET /health HTTP/1.1${END}` },
  { what: 'two hosts', bytes: `GET /health HTTP/1.1\r\n${HOST}\r\nHost: ${MARKER}${END}` },
  { what: 'an unknown version', bytes: `GET /health HTTP/9.9\r\n${HOST}${END}` },
  { what: 'a verb of noise', bytes: `${MARKER.toUpperCase()} /health HTTP/1.1\r\n${HOST}${END}` },
  {
    what: 'a control character in a header',
    bytes: `GET /health HTTP/1.1\r\n${HOST}\r\nX-A: a\u0000b${END}`,
  },
  { what: 'a header without a colon', bytes: `GET /health HTTP/1.1\r\n${HOST}\r\n${MARKER}${END}` },
  { what: 'a space before the colon', bytes: `GET /health HTTP/1.1\r\nHost : localhost${END}` },
  {
    what: 'a header of 100 KB',
    bytes: `GET /health HTTP/1.1\r\n${HOST}\r\nX-A: ${'a'.repeat(100_000)}${END}`,
  },
  { what: '5,000 headers', bytes: `GET /health HTTP/1.1\r\n${HOST}\r\n${'X-A: a\r\n'.repeat(5_000)}\r\n` },
  { what: 'a path of 100 KB', bytes: `GET /${'a'.repeat(100_000)} HTTP/1.1\r\n${HOST}${END}` },
  { what: 'a negative length', bytes: post('Content-Length: -1', '{}') },
  { what: 'a length that is no number', bytes: post(`Content-Length: ${MARKER}`, '{}') },
  { what: 'two lengths', bytes: post('Content-Length: 2\r\nContent-Length: 3', '{}1') },
  {
    what: 'length and chunks',
    bytes: post('Content-Length: 2\r\nTransfer-Encoding: chunked', '2\r\n{}\r\n0\r\n\r\n'),
  },
  {
    what: 'a chunk size that is no number',
    bytes: post('Transfer-Encoding: chunked', `${MARKER}\r\n{}\r\n`),
  },
  { what: 'a chunk of 2^64', bytes: post('Transfer-Encoding: chunked', `ffffffffffffffffff\r\n{}\r\n`) },
  { what: 'an unknown coding', bytes: post(`Transfer-Encoding: ${MARKER}`, '{}') },
  { what: 'too much by its length', bytes: post('Content-Length: 20000', 'x'.repeat(20_000)) },
  { what: 'a gigabyte announced', bytes: post('Content-Length: 1073741824', '{') },
  { what: 'a body cut short', bytes: post('Content-Length: 100', `{"${MARKER}"`) },
  { what: 'a star for a path', bytes: `GET * HTTP/1.1\r\n${HOST}${END}` },
  { what: 'HTTP/2 without asking', bytes: `PRI * HTTP/2.0${END}SM${END}` },
]

/** Requests under way at once. */
const WIDTH = 24
const GROWTH_BYTES_MAX = 128 * 1024 * 1024
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']
const FREE_TEXT = ['api_key', 'api_secret', 'passphrase']

describe('hostile input', () => {
  const venue = new VenueProcess()
  const { fetch } = venueTransport(venue)
  let token = ''
  let pid = 0
  let resident = 0
  let sent = 0

  beforeAll(async () => {
    await venue.start()
    const { client } = await openAccount(venue, 'mallory')
    token = await client.token()
    pid = venue.pid
    resident = await residentBytes(venue)
  }, 180_000)
  afterAll(() => venue.remove())

  type Attempt = { what: string; path: string; init: RequestInit; codes?: readonly RefusalCode[] }

  /** Sends all and collects errors of the answers. */
  async function expectRefused(attempts: readonly Attempt[]): Promise<void> {
    const faults: string[] = []
    const queue = attempts.values()
    const work = async (): Promise<void> => {
      for (const { what, path, init, codes } of queue) {
        const told = await toldBy(await fetch(path, init))
        const found = problemFaults(told, codes)
        faults.push(...found.map((fault) => `${init.method} ${path.slice(0, 80)}, ${what}: ${fault}`))
      }
    }
    await Promise.all(Array.from({ length: WIDTH }, work))
    sent += attempts.length
    expect(attempts.length).toBeGreaterThan(0)
    expect(faults).toEqual([])
  }
  const json = (more: Record<string, string> = {}) => ({
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    ...more,
  })

  test('a method the path does not take', async () => {
    const attempts = [...methodsByPath()].flatMap(([path, taken]) =>
      METHODS.filter((method) => !taken.includes(method)).map((method) => ({
        what: 'wrong method',
        path,
        init: { method, headers: json(), ...(method === 'GET' ? {} : { body: `{"${MARKER}":1}` }) },
        codes: ['method_not_allowed'] as const,
      })),
    )
    await expectRefused(attempts)
  })

  test('no token, and tokens that are none', async () => {
    const schemes: [string | undefined, RefusalCode][] = [
      [undefined, 'token_missing'],
      [`Bearer ${MARKER}`, 'token_invalid'],
      [`Bearer ${'x'.repeat(600)}`, 'token_invalid'],
      [`Basic ${token}`, 'token_invalid'],
      [`Bearer ${token} ${MARKER}`, 'token_invalid'],
      [`Bearer ${token},${token}`, 'token_invalid'],
      [token, 'token_invalid'],
      ['Bearer', 'token_invalid'],
    ]
    const attempts = SAMPLES.filter(({ bearer, is_socket }) => bearer && !is_socket).flatMap((sample) =>
      schemes.map(([authorization, code]) => ({
        what: String(authorization).slice(0, 40),
        path: sample.path,
        init: {
          method: sample.method,
          headers: authorization === undefined ? {} : { authorization },
          ...(sample.body === undefined ? {} : { body: `{"${MARKER}":1}` }),
        },
        codes: [code],
      })),
    )
    await expectRefused(attempts)
  })

  test('a socket path without an upgrade', async () => {
    const sockets = SAMPLES.filter(({ is_socket }) => is_socket)
    await expectRefused(
      sockets.map(({ path }) => ({
        what: 'plain GET',
        path: `${path}?token=${MARKER}`,
        init: { method: 'GET', headers: json() },
        codes: ['upgrade_required'],
      })),
    )
  })

  const writes = SAMPLES.filter(({ body }) => body !== undefined)
  test('the samples themselves have no fault of form', async () => {
    for (const { method, path, body } of writes) {
      const response = await fetch(path, { method, headers: json(), body: JSON.stringify(body) })
      const { code } = (await response.json()) as { code?: RefusalCode }
      const is_judged = [200, 401, 403, 404, 409].includes(response.status) || code === 'expiry_too_soon'
      expect([path, response.status, code, is_judged]).toEqual([path, response.status, code, true])
    }
  })

  test('a content type that is not JSON', async () => {
    const types = [
      '',
      'text/plain',
      MARKER,
      'application/x-www-form-urlencoded',
      'application/json; charset=utf-16',
    ]
    const attempts = writes.flatMap(({ method, path, body }) =>
      types.map((type) => ({
        what: type,
        path,
        init: { method, headers: json({ 'content-type': type }), body: JSON.stringify(body) },
        codes: ['content_type_unsupported'] as const,
      })),
    )
    await expectRefused(attempts)
  })

  test('bodies that are no JSON, no object, nested, doubled or too big', async () => {
    const attempts = writes.flatMap(({ method, path, body }) =>
      brokenTexts(body!).map(({ what, text, codes }) => ({
        what,
        path,
        init: { method, headers: json(), body: text as BodyInit },
        ...(codes === undefined ? {} : { codes }),
      })),
    )
    await expectRefused(attempts)
  })

  test('each field with another type, width, case, sign or size', async () => {
    const attempts = writes.flatMap(({ method, path, body }) =>
      brokenLeaves(body!, FREE_TEXT).map(({ what, text, codes }) => ({
        what,
        path,
        init: { method, headers: json(), body: text as BodyInit },
        ...(codes === undefined ? {} : { codes }),
      })),
    )
    await expectRefused(attempts)
  })

  test('query strings that say too much, the same twice, or nothing usable', async () => {
    const bad = (name: string) => [
      `${name}=1&${name}=1`,
      `${name}=${MARKER}`,
      `${name}=-1.0`,
      `${name}=1e3`,
      `${name}=%00`,
      `${name}=%ff`,
      `${name}=${'9'.repeat(30)}`,
      `${name}=`,
      `${name}[]=1`,
    ]
    const common = [`${MARKER}=1`, '__proto__=1', 'constructor=1', '%00=1', '=', 'a'.repeat(5_000)]
    const attempts = SAMPLES.filter(({ is_socket }) => !is_socket).flatMap(
      ({ method, path, query = [], body }) =>
        [...common, ...query.flatMap(bad)].map((text) => ({
          what: 'query',
          path: `${path.split('?')[0]}?${text}`,
          init: { method, headers: json(), ...(body === undefined ? {} : { body: JSON.stringify(body) }) },
        })),
    )
    await expectRefused(attempts)
  })

  test('lists after an event that is not there, or of an instrument that is not: refusals the reference names', async () => {
    const ahead = ['/orders', '/fills', '/events'].map((path) => ({
      what: 'ahead of the log',
      path: `${path}?after=${Number.MAX_SAFE_INTEGER}`,
      init: { method: 'GET', headers: json() },
      codes: ['after_invalid'] as const,
    }))
    const unknown = {
      what: 'no such instrument',
      path: '/orders?symbol=NOPE',
      init: { method: 'GET', headers: json() },
      codes: ['instrument_unknown'] as const,
    }
    await expectRefused([...ahead, unknown])
    expect(venue.output).not.toContain('"event":"refusal_undeclared"')
  })

  test('path tricks lead nowhere', async () => {
    const faults: string[] = []
    for (const { what, bytes } of PATH_TRICKS) {
      const told = await rawExchange(venue.facts, venue.facts.url, bytes)
      const found = told === undefined ? [] : problemFaults(told)
      faults.push(...found.map((fault) => `${what}: ${fault}`))
    }
    expect(faults).toEqual([])
  })

  test.each(['url', 'operator_url'] as const)('bytes that are no request, at %s', async (listener) => {
    const faults: string[] = []
    const asked = BAD_FRAMING.map(async ({ what, bytes }) => {
      const told = await rawExchange(venue.facts, venue.facts[listener], bytes)
      if (told === undefined) return
      if (told.status < 400) faults.push(`${what}: answered ${told.status}`)
      if (told.text.toLowerCase().includes(MARKER)) faults.push(`${what}: echoed`)
    })
    await Promise.all(asked)
    expect(faults).toEqual([])
  })

  test.each([
    ['contradicting lengths', 'POST /orders HTTP/1.1', 'Content-Length: 2\r\nContent-Length: 30', 400],
    ['two framings', 'POST /orders HTTP/1.1', 'Content-Length: 4\r\nTransfer-Encoding: chunked', 400],
    ['a length that is none', 'POST /orders HTTP/1.1', 'Content-Length: -1', 400],
    ['another protocol', 'PRI * HTTP/2.0', 'SM: 1', 400],
    ['headers beyond 16 KiB', 'GET /time HTTP/1.1', `X: ${'a'.repeat(20_000)}`, 431],
    ['no version', 'GET /time', '', 505],
    ['an unlisted method', 'FOO /time HTTP/1.1', '', undefined],
  ] as const)('the runtime answers %s itself', async (_, line, headers, status) => {
    const request = `${line}\r\nHost: localhost\r\n${headers === '' ? '' : `${headers}\r\n`}\r\n`
    expect((await rawExchange(venue.facts, venue.facts.url, request))?.status).toBe(status)
  })

  test('through all of it: the same process, healthy, and no bigger', async () => {
    const health = await fetch('/health')
    expect([health.status, ((await health.json()) as { status: string }).status]).toEqual([200, 'ok'])
    expect([venue.pid, venue.runs]).toEqual([pid, true])
    expect(sent).toBeGreaterThan(1_500)
    expect((await residentBytes(venue)) - resident).toBeLessThan(GROWTH_BYTES_MAX)
    expect(venue.output).not.toContain('"event":"internal_error"')
    expect(venue.output).not.toContain('"event":"refusal_undeclared"')
    expect(await venue.stop()).toBe(0)
  })
})
