/** Every endpoint, every status it can give, in the published order of checks; and nothing submitted comes back. */
import { describe, expect, test } from 'bun:test'
import { REFUSAL_BY_CODE, Refusal, type RefusalCode } from '../../protocol/refusals'
import { declaredRefusals } from '../../routes/_declared'
import { MANIFEST } from '../../routes/_manifest.gen'
import type { Answered, CallInit, Harness } from './harness'
import { openHarness } from './harness'
import { ROWS, type Row } from './rows'

const SECRET = 'never-to-be-repeated'
/** Served from elsewhere than one method of the venue; tested by files of their own. */
const ELSEWHERE = [
  'get /info',
  'get /evidences/{file}',
  'get /swagger',
  'get /swagger/json',
  'get /swagger/style.css',
]
/** Refusals that routes or the edge decide before the venue is asked. */
const EDGE = new Set<RefusalCode>([
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

const contractOf = (row: Row) => {
  const mounted = MANIFEST.find(({ method, path }) => `${method} ${path}` === row.endpoint)
  if (mounted === undefined || mounted.route.kind !== 'endpoint')
    throw new Error(`no endpoint ${row.endpoint}`)
  return mounted.route
}
const methodOf = (row: Row) => row.endpoint.split(' ')[0]!.toUpperCase()

/** Runs `use` against a venue whose method behind the row does `act`. */
async function against(
  row: Row,
  act: (...args: unknown[]) => unknown,
  use: (harness: Harness, send: (init?: CallInit) => Promise<Answered>) => Promise<void>,
  more: Record<string, unknown> = {},
): Promise<void> {
  const harness = openHarness({
    venue: { ...(row.venue === undefined ? {} : { [row.venue]: act }), ...more },
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
const refusing = (code: RefusalCode) => () => {
  throw new Refusal(code, { retry_after_ms: 1_500 })
}

test('every endpoint of the manifest has a row', () => {
  const endpoints = MANIFEST.filter(({ route }) => route.kind === 'endpoint').map(
    ({ method, path }) => `${method} ${path}`,
  )
  expect([...ROWS.map(({ endpoint }) => endpoint), ...ELSEWHERE].sort()).toEqual([...endpoints].sort())
})

for (const row of ROWS) {
  describe(row.endpoint, () => {
    const route = contractOf(row)

    test(`answers ${row.status} with what its contract declares`, async () => {
      await against(
        row,
        () => row.gives,
        async (harness, send) => {
          const { status, headers, json } = await send()
          expect({ status, json }).toEqual({ status: row.status, json: row.answers ?? row.gives })
          expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
          expect(headers.get('content-type')).toBe('application/json')
          expect(harness.lines).toEqual([])
        },
      )
    })

    test('gives each declared refusal of the venue as a problem document', async () => {
      const codes = declaredRefusals(route).filter((code) => !EDGE.has(code))
      for (const code of codes) {
        await against(row, refusing(code), async (_harness, send) => {
          const { status, headers, json } = await send()
          const entry = REFUSAL_BY_CODE.get(code)!
          expect(status).toBe(entry.status)
          expect(headers.get('content-type')).toBe('application/problem+json')
          expect(json).toMatchObject({
            type: `/swagger#${code}`,
            status: entry.status,
            code,
            detail: entry.message,
            message: entry.message,
            request_id: headers.get('x-request-id'),
            applied: code === 'order_exists' ? 'yes' : 'no',
          })
          const retry = status === 429 || status === 503 ? '2' : null
          expect(headers.get('retry-after')).toBe(retry)
        })
      }
    })

    test('answers 500 without a word of what failed, and never claims it was not applied', async () => {
      if (row.venue === undefined && row.enclave === undefined) return
      const fail = () => {
        throw new Error(SECRET)
      }
      await against(row, fail, async (harness, send) => {
        const { status, text, json } = await send()
        expect([status, json.code, json.applied]).toEqual([500, 'internal', 'unknown'])
        expect(text + harness.lines.join()).not.toContain(SECRET)
        expect(harness.lines.length).toBe(1)
      })
    })

    test('sends no field that its contract does not declare', async () => {
      if (row.gives === undefined || Array.isArray(row.gives)) return
      const more = { ...(row.gives as object), undeclared: SECRET }
      await against(
        row,
        () => more,
        async (harness, send) => {
          const { status, text } = await send()
          expect(status).toBe(500)
          expect(text + harness.lines.join()).not.toContain(SECRET)
        },
      )
    })

    test('answers OPTIONS, and 405 for a method it does not take, whoever asks', async () => {
      await against(
        row,
        () => row.gives,
        async (harness) => {
          const options = await harness.call('OPTIONS', row.path, { token: null })
          expect([options.status, options.text]).toEqual([204, ''])
          expect(options.headers.get('allow')).toContain(methodOf(row))
          const wrong = await harness.call('PATCH', row.path, { token: null })
          expect([wrong.status, wrong.json.code]).toEqual([405, 'method_not_allowed'])
          expect(wrong.headers.get('allow')).toBe(options.headers.get('allow'))
        },
      )
    })

    if (methodOf(row) === 'GET') {
      test('answers HEAD with the headers of GET and no body', async () => {
        await against(
          row,
          () => row.gives,
          async (harness, send) => {
            const got = await send()
            const head = await harness.call('HEAD', row.path)
            expect([head.status, head.text]).toEqual([got.status, ''])
            expect(head.headers.get('content-length')).toBe(String(got.text.length))
          },
        )
      })
    }

    if (row.open !== true) {
      test('asks for a token before it looks at anything else', async () => {
        await against(
          row,
          () => row.gives,
          async (_harness, send) => {
            const bad = row.json === undefined ? {} : { body: '{', headers: { 'content-type': 'text/plain' } }
            const codes: [string | null, string][] = [
              [null, 'token_missing'],
              ['a-wrong-token', 'token_invalid'],
              ['an-expired-token', 'token_expired'],
              ['a-revoked-token', 'token_revoked'],
            ]
            for (const [token, code] of codes) {
              const { status, headers, json } = await send({ ...bad, json: undefined, token })
              expect([status, json.code]).toEqual([401, code])
              expect(headers.get('www-authenticate')).toBe('Bearer')
            }
          },
        )
      })
    }

    if (route.contract.cost !== undefined) {
      test('takes its cost before the body is read, and says what is left', async () => {
        const taken: unknown[] = []
        const takeLimit = (...args: unknown[]) => {
          taken.push(args)
          return { capacity: 100, refill_per_s: 50, remaining: 98.5, retry_after_ms: 0 }
        }
        await against(
          row,
          () => row.gives,
          async (_harness, send) => {
            const { headers } = await send()
            expect(taken).toEqual([['acct-1', route.contract.cost]])
            expect(headers.get('ratelimit-policy')).toBe('"account";q=100;w=2')
            expect(headers.get('ratelimit')).toBe('"account";r=98;t=1')
          },
          { takeLimit },
        )
        await against(
          row,
          () => row.gives,
          async (_harness, send) => {
            const { status, headers, json } = await send(
              row.json === undefined ? {} : { json: undefined, body: '{' },
            )
            expect([status, json.code, json.retry_after_ms]).toEqual([429, 'rate_limited', 1_500])
            expect(headers.get('retry-after')).toBe('2')
          },
          { takeLimit: refusing('rate_limited') },
        )
      })
    }

    if (row.json !== undefined) {
      test('judges size, type and form of the body, in this order', async () => {
        await against(
          row,
          () => row.gives,
          async (_harness, send) => {
            const json = { 'content-type': 'application/json' }
            const fields = row.json as Record<string, unknown>
            const name = Object.keys(fields)[0]!
            const without = Object.fromEntries(Object.entries(fields).slice(1))
            const cases: [CallInit, number, string][] = [
              [{ body: 'x'.repeat(16_385) }, 413, 'body_too_large'],
              [{ body: '{', headers: { 'content-type': 'text/plain' } }, 415, 'content_type_unsupported'],
              [
                { body: '{', headers: { 'content-type': 'application/json; charset=latin1' } },
                415,
                'content_type_unsupported',
              ],
              [{ body: `{"${SECRET}`, headers: json }, 400, 'json_malformed'],
              [{ body: new Uint8Array([0x22, 0xff, 0x22]), headers: json }, 400, 'json_malformed'],
              [
                { body: `{"${name}":1,${JSON.stringify(fields).slice(1)}`, headers: json },
                400,
                'key_duplicate',
              ],
              [{ json: { ...fields, [SECRET]: 1 } }, 400, 'field_unknown'],
              [{ json: without }, 400, 'field_missing'],
              [{ json: { ...fields, [name]: { [SECRET]: SECRET } } }, 400, 'field_invalid'],
              [{ json: SECRET }, 400, 'field_invalid'],
            ]
            for (const [init, status, code] of cases) {
              const answer = await send({ json: undefined, ...init })
              expect([answer.status, answer.json.code]).toEqual([status, code])
              expect(answer.text).not.toContain(SECRET)
            }
          },
        )
      })
    }
  })
}
