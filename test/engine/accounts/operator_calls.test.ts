/** Calls to the operator's listener: signed, once, for this venue, for a short time. */
import { describe, expect, test } from 'bun:test'
import { type OperatorCall, openOperatorCheck } from '../../../engine/accounts/verify_operator'
import {
  OPERATOR_HEADERS,
  type OperatorRequest,
  operatorHeaders,
  operatorRequestBytes,
  scrapeToken,
  scrapeTokenBytes,
} from '../../../protocol/bodies/signed_calls'
import { toHex, utf8 } from '../../../protocol/bytes'
import { OPERATOR_CALL_LIFE_MAX_S, SCRAPE_TOKEN_LIFE_MAX_S } from '../../../protocol/limits'
import { sha256 } from '../../../protocol/sha256'
import { codeOf, NOW_MS, OPERATOR_KEY, OPERATOR_SEED, testClock } from './venue_operator'

const venue = new Uint8Array(32).fill(5)
const request: OperatorRequest = {
  venue,
  nonce: BigInt(NOW_MS + 1),
  expiry_unix_s: NOW_MS / 1000 + 60,
  method: 'POST',
  target: '/accounts?dry=1',
  body: utf8('{"a":1}'),
}

function check() {
  return openOperatorCheck({ operator_key: OPERATOR_KEY, venue, clock: testClock() })
}

/** The call as it arrives, signed as `signed` and sent as `sent`. */
function call(signed: Partial<OperatorRequest> = {}, sent: Partial<OperatorRequest> = {}): OperatorCall {
  const headers = operatorHeaders({ ...request, ...signed }, OPERATOR_SEED)
  const { body, method, target } = { ...request, ...signed, ...sent }
  return { body, method, target, header: (name) => headers[name] ?? null }
}

describe('an operator call', () => {
  test('is signed over exactly 136 bytes', () => {
    const bytes = operatorRequestBytes({ ...request, nonce: 2n, expiry_unix_s: 3 })
    expect(bytes.length).toBe(136)
    const hash = (value: Uint8Array) => toHex(sha256(value))
    const fixed = [
      Buffer.from('tacit/operator/1').toString('hex'),
      toHex(venue),
      '0200000000000000',
      '0300000000000000',
    ]
    const method = Buffer.from('POST').toString('hex').padEnd(16, '0')
    expect(toHex(bytes)).toBe([...fixed, method, hash(utf8(request.target)), hash(request.body)].join(''))
  })

  test('is taken once', async () => {
    const verify = check()
    verify(call())
    expect(await codeOf(() => verify(call()))).toBe('operator_signature_invalid')
    verify(call({ nonce: request.nonce + 1n }))
  })

  test('recorded before the venue started is void', async () => {
    const verify = check()
    expect(await codeOf(() => verify(call({ nonce: BigInt(NOW_MS) })))).toBe('operator_signature_invalid')
  })

  test('is refused past its expiry, or with one too far ahead', async () => {
    for (const expiry_unix_s of [NOW_MS / 1000, NOW_MS / 1000 + OPERATOR_CALL_LIFE_MAX_S + 1]) {
      const verify = check()
      expect(await codeOf(() => verify(call({ expiry_unix_s })))).toBe('operator_signature_invalid')
    }
  })

  test('is refused when method, target, body or venue is not what was signed, and uses up no nonce', async () => {
    const verify = check()
    const wrong = [
      call({}, { method: 'GET' }),
      call({}, { target: '/drain' }),
      call({}, { body: utf8('{"a":2}') }),
      call({ venue: new Uint8Array(32) }),
      { ...call(), header: () => null },
    ]
    for (const attempt of wrong)
      expect(await codeOf(() => verify(attempt))).toBe('operator_signature_invalid')
    verify(call())
  })

  test('carries its three headers, none of which may be absent or malformed', async () => {
    const names = Object.values(OPERATOR_HEADERS)
    expect(Object.keys(operatorHeaders(request, OPERATOR_SEED))).toEqual(names)
    for (const name of names) {
      for (const value of [null, 'x', '']) {
        const header = (one: string) => (one === name ? value : call().header(one))
        expect(await codeOf(() => check()({ ...call(), header }))).toBe('operator_signature_invalid')
      }
    }
  })

  test('is judged by a whole key only', () => {
    for (const operator_key of ['', OPERATOR_KEY.slice(0, 40), `${OPERATOR_KEY}1`])
      expect(() => openOperatorCheck({ operator_key, venue, clock: testClock() })).toThrow('operator_key')
  })
})

describe('a scrape token', () => {
  const expiry = NOW_MS / 1000 + 60
  const scrape = (token: string, sent: Partial<OperatorCall> = {}) =>
    codeOf(() =>
      check()({
        method: 'GET',
        target: '/metrics',
        body: new Uint8Array(),
        header: (name) => (name === 'authorization' ? `Bearer ${token}` : null),
        ...sent,
      }),
    )
  const refused = 'operator_signature_invalid'
  const good = scrapeToken(venue, expiry, OPERATOR_SEED)

  test('is signed over exactly 56 bytes, with a domain of its own', () => {
    expect(toHex(scrapeTokenBytes({ venue, expiry_unix_s: 3 }))).toBe(
      `${toHex(utf8('tacit/scrape/001'))}${toHex(venue)}0300000000000000`,
    )
  })

  test('reads metrics again and again, until it expires', async () => {
    const verify = check()
    const header = (name: string) => (name === 'authorization' ? `Bearer ${good}` : null)
    for (let time = 0; time < 3; time++)
      verify({ method: 'GET', target: '/metrics', body: new Uint8Array(), header })
    for (const at of [NOW_MS / 1000 + 1, NOW_MS / 1000 + SCRAPE_TOKEN_LIFE_MAX_S])
      expect(await scrape(scrapeToken(venue, at, OPERATOR_SEED))).toBe('not refused')
    for (const at of [NOW_MS / 1000, NOW_MS / 1000 + SCRAPE_TOKEN_LIFE_MAX_S + 1])
      expect(await scrape(scrapeToken(venue, at, OPERATOR_SEED))).toBe(refused)
  })

  test('does nothing else, and no other key, venue or expiry makes one', async () => {
    const calls = [
      { method: 'POST', target: '/drain' },
      { target: '/accounts' },
      { target: '/metrics?all' },
      { method: 'POST' },
    ]
    for (const sent of calls) expect([sent, await scrape(good, sent)]).toEqual([sent, refused])
    const forged = [
      scrapeToken(venue, expiry, new Uint8Array(32).fill(99)),
      scrapeToken(new Uint8Array(32), expiry, OPERATOR_SEED),
      good.replace(String(expiry), String(expiry + 1)),
      good.slice(0, -2),
      `0${good}`,
      '',
    ]
    for (const token of forged) expect([token, await scrape(token)]).toEqual([token, refused])
  })
})
