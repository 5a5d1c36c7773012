/** Headers of every answer, queries and strict JSON: requests that leave room for doubt are rejected. */

import { afterEach, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Refusal } from '../../protocol/refusals'
import { parseJson, readQuery, textOf } from '../../server/edge/body'
import { limitHeaders, openBucket } from '../../server/edge/rate'
import { URLS_KEPT_MAX } from '../../server/limits'
import { answered, type Harness, openHarness, rawStatus, session, TOKEN } from '../kit/server/harness'

const TIME = { slot: 1, unix_ms: 2, slot_ms: 400 }
let harness: Harness
afterEach(() => harness.stop())

test("the caller's request id is taken if it is 16 to 64 of A-Z a-z 0-9 -", async () => {
  harness = openHarness({ venue: { time: () => TIME } })
  const given = async (id: string) => {
    const { headers } = await harness.call('GET', '/time', { headers: { 'x-request-id': id } })
    return headers.get('x-request-id')
  }
  expect(await given('abcdefghij-123456')).toBe('abcdefghij-123456')
  expect(await given('x'.repeat(64))).toBe('x'.repeat(64))
  for (const id of ['short', 'x'.repeat(65), 'has_underscores_in_it', '<script>1234567890']) {
    expect(await given(id)).toMatch(/^[0-9a-f-]{36}$/)
  }
})

test('a read that waits for nothing is answered without a promise, with its own headers', async () => {
  harness = openHarness({
    venue: { time: () => TIME, nonces: () => ({ place_nonce: '0', cancel_nonce: '0' }) },
  })
  const ask = (path: string, id: string) => {
    const headers = { 'x-request-id': id, authorization: `Bearer ${TOKEN}` }
    return harness.app.fetch(new Request(`http://localhost${path}`, { headers })) as Response
  }
  const nonces = '/nonces?trading_key=4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi'
  const ids = ['first-request-id', 'second-request-id', 'third-request-id']
  const answers = ids.map((id, at) => ask(at === 1 ? '/time' : nonces, id))
  for (const answer of answers) expect(answer).toBeInstanceOf(Response)
  expect(answers.map(({ headers }) => headers.get('x-request-id'))).toEqual(ids)
  expect(answers.map(({ headers }) => headers.has('ratelimit'))).toEqual([true, false, true])
})

test('every answer carries a request id, also where nothing is found', async () => {
  harness = openHarness()
  for (const path of ['/', '/nothing', '/orders/', '/health/', '/orders%2f1']) {
    const { status, headers, json } = await harness.call('GET', path)
    expect([status, json.code]).toEqual([404, 'route_unknown'])
    expect(headers.get('x-request-id')).toBe(json.request_id)
  }
})

test('answers are not stored, and public ones may be read by pages of other origins', async () => {
  harness = openHarness({
    venue: { time: () => TIME, nonces: async () => ({ place_nonce: '0', cancel_nonce: '0' }) },
  })
  const open = await harness.call('GET', '/time')
  expect(open.headers.get('access-control-allow-origin')).toBe('*')
  expect(open.headers.get('cache-control')).toBe('no-store')
  expect(open.headers.get('x-content-type-options')).toBe('nosniff')
  const own = await harness.call('GET', '/nonces?trading_key=4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi')
  expect(own.status).toBe(200)
  expect(own.headers.get('access-control-allow-origin')).toBeNull()
})

test('a request that could mean two hosts, or shift its path, is refused', async () => {
  harness = openHarness({ venue: { time: () => TIME } })
  const { port } = harness.listener
  const ask = (head: string) => rawStatus(port, `${head}\r\n\r\n`)
  expect(await ask('GET /time HTTP/1.1\r\nHost: localhost')).toBe(200)
  expect(await ask('GET /time HTTP/1.1\r\nHost: localhost\r\nHost: other')).toBe(400)
  expect(await ask('GET /aa/time HTTP/1.1\r\nHost: ab')).toBe(400)
  expect(await ask('GET /time HTTP/1.1')).toBe(400)
})

test('two lengths, or a length beside chunks, are refused by the parser', async () => {
  harness = openHarness()
  const post = (headers: string) =>
    rawStatus(
      harness.listener.port,
      `POST /auth/token HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n0\r\n\r\n`,
    )
  expect(await post('Content-Length: 2\r\nContent-Length: 3')).toBe(400)
  expect(await post('Content-Length: 5\r\nTransfer-Encoding: chunked')).toBe(400)
})

test('a body in chunks is bounded like any other', async () => {
  harness = openHarness()
  const chunk = `4000\r\n${' '.repeat(0x4000)}\r\n`
  const head =
    'POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
  expect(await rawStatus(harness.listener.port, `${head}${chunk}1\r\n \r\n0\r\n\r\n`)).toBe(413)
  expect(await rawStatus(harness.listener.port, `${head}2\r\n{}\r\n0\r\n\r\n`)).toBe(400)
})

test('a body without end is refused by a problem document, and its connection closed, on every path', async () => {
  harness = openHarness({ venue: { time: () => TIME } })
  const id = 'a-request-id-of-mine'
  const told = async (line: string, body: string) => {
    const [head, text] = await answered(
      harness.listener.port,
      `${line} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${id}\r\nContent-Type: application/json\r\n${body}`,
    )
    const { status, code, request_id, applied } = JSON.parse(text!)
    expect(head!.toLowerCase()).toContain('connection: close')
    expect(head!.toLowerCase()).toContain('content-type: application/problem+json')
    return [status, code, request_id, applied]
  }
  const refused = [413, 'body_too_large', id, 'no']
  const declared = `Content-Length: ${1024 * 1024 + 1}\r\n\r\n${' '.repeat(100_000)}`
  const chunk = `100000\r\n${' '.repeat(0x100000)}\r\n`
  const chunked = `Transfer-Encoding: chunked\r\n\r\n${chunk}${chunk}`
  for (const body of [declared, chunked]) expect(await told('POST /auth/token', body)).toEqual(refused)
  for (const line of ['GET /time', 'POST /orders', 'DELETE /nothing'])
    expect(await told(line, declared)).toEqual(refused)
})

test('an undefined method is refused with the allowed ones', async () => {
  harness = openHarness()
  const { status, headers } = await harness.call('PROPFIND', '/orders')
  expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS, POST'])
  expect((await harness.call('GET', '/orders/cancel-all', { token: null })).status).toBe(405)
  expect((await harness.call('HEAD', '/orders/cancel-all', { token: null })).status).toBe(405)
  expect((await harness.call('HEAD', '/nothing', { token: null })).status).toBe(404)
})

test('a token of another scheme, or two of them, is no token', async () => {
  harness = openHarness()
  for (const authorization of ['Basic abc', 'Bearer', 'Bearer a, Bearer b', 'Bearer a b', 'Bearer <x>']) {
    const { status, json } = await harness.call('GET', '/fills', { headers: { authorization } })
    expect([status, json.code]).toEqual([401, 'token_invalid'])
  }
})

test('every query reads as URLSearchParams reads it, and a name given twice is refused', () => {
  const part = fc.string({
    unit: fc.constantFrom('a', 'b', '1', '=', '&', '%', '+', '2', '0', '-', '#', 'é'),
  })
  fc.assert(
    fc.property(part, (text) => {
      const pairs = [...new URLSearchParams(text)]
      const url = `https://localhost:1/orders?${text}`
      if (new Set(pairs.map(([name]) => name)).size < pairs.length)
        expect(() => readQuery(url)).toThrow(Refusal)
      else expect({ ...readQuery(url) }).toEqual(Object.fromEntries(pairs))
    }),
    { numRuns: 2_000, verbose: true },
  )
})

test('a name that objects know by themselves is a name like any other', () => {
  expect(Object.entries(readQuery('https://h/x?__proto__=1&constructor=2'))).toEqual([
    ['__proto__', '1'],
    ['constructor', '2'],
  ])
  expect(Object.entries(readQuery('https://h/x'))).toEqual([])
})

test('a parsed URL is kept for its GET alone, and its head and token are judged each time', async () => {
  const path = `/orders/${'0a'.repeat(16)}`
  let is_revoked = false
  harness = openHarness({
    venue: {
      own: { order: () => '{"order_id":"as text"}' } as never,
      authenticate() {
        if (is_revoked) throw new Refusal('token_revoked')
        return session(harness.clock)
      },
    },
    options: { checks_texts: false },
  })
  const ask = async (method: string, more: Record<string, string> = {}) => {
    const headers = { authorization: `Bearer ${TOKEN}`, ...more }
    const answer = await harness.app.fetch(new Request(`http://localhost${path}`, { method, headers }))
    return [answer.status, answer.status < 300 ? await answer.text() : (await answer.json()).code]
  }
  for (let round = 0; round < 2; round++) {
    expect(await ask('GET')).toEqual([200, '{"order_id":"as text"}'])
    expect(await ask('HEAD')).toEqual([200, ''])
    expect(await ask('DELETE')).toEqual([415, 'content_type_unsupported'])
    expect(await ask('POST')).toEqual([405, 'method_not_allowed'])
    expect(await ask('GET', { host: 'localhost, other' })).toEqual([400, 'field_invalid'])
    expect(await ask('GET', { 'content-length': String(1024 * 1024 + 1) })).toEqual([413, 'body_too_large'])
    expect(await ask('GET', { authorization: 'Bearer ' })).toEqual([401, 'token_invalid'])
  }
  is_revoked = true
  expect(await ask('GET')).toEqual([401, 'token_revoked'])
})

test('a kept query gives the same answer, among more than are kept, and a refused one is refused again', async () => {
  const read: unknown[] = []
  const events = (_: string, page: unknown) => {
    read.push(page)
    return '{"items":[],"next_after":null}'
  }
  harness = openHarness({ venue: { own: { events } as never } })
  const headers = { authorization: `Bearer ${TOKEN}` }
  const ask = async (query: string) => {
    const answer = await harness.app.fetch(new Request(`http://localhost/events${query}`, { headers }))
    return answer.status
  }
  for (let round = 0; round < 2; round++) {
    for (let after = 0; after < 2 * URLS_KEPT_MAX; after++) {
      for (let again = 0; again < 2; again++) expect(await ask(`?after=${after}&limit=7`)).toBe(200)
      expect(read.splice(0)).toEqual([
        { after, limit: 7 },
        { after, limit: 7 },
      ])
      expect(await ask(`?after=${after}&limit=7&limit=7`)).toBe(400)
      expect(await ask(`?after=${after}&more=1`)).toBe(400)
    }
  }
  expect(read).toEqual([])
})

function codeOf(text: string): string {
  try {
    parseJson(text)
    return 'ok'
  } catch (fault) {
    return (fault as Refusal).code
  }
}

test('any JSON value comes back as it was', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value)
      expect(parseJson(text)).toEqual(JSON.parse(text))
    }),
  )
})

test('a key named twice is found at any place', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }),
      fc.jsonValue(),
      (object, value) => {
        const name = JSON.stringify(Object.keys(object)[0])
        const text = `${JSON.stringify(object).slice(0, -1)},${name}:${JSON.stringify(value)}}`
        expect(codeOf(text)).toBe('key_duplicate')
        expect(codeOf(`[{"outer":${text}}]`)).toBe('key_duplicate')
      },
    ),
  )
})

test('escapes do not hide a repeated key, and colons in strings do not make one', () => {
  expect(codeOf('{"a":1,"\\u0061":2}')).toBe('key_duplicate')
  expect(codeOf('{"__proto__":1,"__proto__":2}')).toBe('key_duplicate')
  expect(codeOf('{"a":{"b":1,"c":2},"a":{}}')).toBe('key_duplicate')
  expect(codeOf('{"a":":","b":"\\":","c":"\\\\"}')).toBe('ok')
})

test('deep nesting is read without exhausting the stack', () => {
  const depth = 8_000
  expect(['ok', 'json_malformed']).toContain(codeOf('['.repeat(depth) + ']'.repeat(depth)))
})

test('bytes that are no UTF-8, and a byte order mark, are malformed', () => {
  expect(() => textOf(new Uint8Array([0x22, 0xc3, 0x28, 0x22]))).toThrow(Refusal)
  expect(codeOf(textOf(new Uint8Array([0xef, 0xbb, 0xbf, 0x31])))).toBe('json_malformed')
})

test('white space behind a body, which hides its length, changes nothing', () => {
  expect(parseJson(`{"side":"buy"}${' '.repeat(4_000)}`)).toEqual({ side: 'buy' })
})

test('who waits as long as a limit says is let through, and the policy that is shown is of the account', () => {
  harness = openHarness()
  const { clock } = harness
  const bucket = openBucket({ capacity: 1, refill_per_s: 3, code: 'rate_limited' }, clock)
  bucket.take(1)
  try {
    bucket.take(1)
  } catch (error) {
    clock.ms += Number((error as Refusal).facts.retry_after_ms)
  }
  bucket.take(1)
  const policyOf = (refill_per_s: number) =>
    limitHeaders({ capacity: 100, refill_per_s, remaining: 10, retry_after_ms: 0 })['ratelimit-policy']
  expect([50, 10].map(policyOf)).toEqual(['"account";q=100;w=2', '"account";q=100;w=10'])
})
