/** Every endpoint judges token, limit, size and form in the published order, and repeats nothing it was sent. */
import { describe, expect, test } from 'bun:test'
import { Refusal } from '../../protocol/refusals'
import { type CallInit, openHarness, StandingClock, session } from '../kit/server/harness'
import { KEY } from '../routes/bodies'
import { against, contractOf, FITTING, refusing, SECRET } from '../routes/rows'

/** Of an account's bucket. */
const LEFT = { capacity: 100, refill_per_s: 50, remaining: 98.5, retry_after_ms: 0 }

for (const row of FITTING) {
  describe(row.endpoint, () => {
    const route = contractOf(row)

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
      test('takes its cost before the body is read, and states the rest', async () => {
        const taken: unknown[] = []
        const takeLimit = (...args: unknown[]) => {
          taken.push(args)
          return LEFT
        }
        await against(
          row,
          () => row.gives,
          async (_harness, send) => {
            const { headers } = await send()
            const { cost, reads } = route.contract
            const of = row.json === undefined || reads === true ? 'read' : 'command'
            const caller = expect.objectContaining({ account_id: 'acct-1', access: 'trade' })
            expect(taken).toEqual([[caller, cost, of]])
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
            expect([status, json.code, json.retry_after_ms]).toEqual([429, 'rate_limited', 1_400])
            expect(headers.get('retry-after')).toBe('2')
            expect(headers.get('ratelimit-policy')).toBe('"account";q=100;w=2')
            expect(headers.get('ratelimit')).toBe('"account";r=9;t=2')
          },
          {
            takeLimit: (_: unknown, cost: number) =>
              cost > 0 ? refusing('rate_limited')() : { ...LEFT, remaining: 9 },
          },
        )
      })
    }

    if (route.contract.cost !== undefined && row.json === undefined) {
      test('charges the rows that it read, and states the rest then', async () => {
        const charged: unknown[] = []
        let units = 7
        await against(
          row,
          () => {
            units += 40
            return row.gives
          },
          async (_harness, send) => {
            const { headers } = await send()
            expect(charged).toEqual([[expect.objectContaining({ account_id: 'acct-1' }), 40]])
            expect(headers.get('ratelimit')).toBe('"account";r=0;t=3')
          },
          {
            takeLimit: () => LEFT,
            readUnits: () => units,
            chargeRead: (...args: unknown[]) => {
              charged.push(args)
              return { ...LEFT, remaining: -20 }
            },
          },
        )
      })
    }

    if (route.contract.bearer === true) {
      test('runs nothing for a token that ended while the body came, or while the node caught up', async () => {
        const called: unknown[] = []
        let looks = 0
        const authenticate = () => {
          looks += 1
          return looks === 1 ? session(new StandingClock()) : refusing('token_revoked')()
        }
        await against(
          row,
          (...args) => {
            called.push(args)
            return row.gives
          },
          async (_harness, send) => {
            const { status, json } = await send()
            expect([status, json.code]).toEqual([401, 'token_revoked'])
          },
          { authenticate, caughtUp: async () => undefined },
        )
        expect(called).toEqual([])
      })
    }

    if (route.contract.bearer === true) {
      test('runs nothing for a credential that only reads unless it reads alone', async () => {
        let calls = 0
        const refused = route.contract.access !== 'read'
        await against(
          row,
          () => {
            calls += 1
            return row.gives
          },
          async (_harness, send) => {
            const { json } = await send()
            expect(json?.code === 'read_only').toBe(refused)
          },
          { authenticate: () => ({ ...session(new StandingClock()), access: 'read' }) },
        )
        expect(calls === 0).toBe(refused)
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
              [{ body: '{'.padEnd(16_384), headers: json }, 400, 'json_malformed'],
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

test('a command is answered the error of its wait for the next leading node, a read the error that it met first', async () => {
  const base = openHarness({
    venue: {
      authenticate() {
        throw new Refusal('lease_lost')
      },
      handedOver: () => Promise.reject(new Refusal('outcome_unknown')),
    },
  })
  try {
    const read = await base.call('GET', `/nonces?trading_key=${KEY}`)
    const command = await base.call('POST', '/orders', { json: {} })
    expect([read.json['code'], command.json['code']]).toEqual(['lease_lost', 'outcome_unknown'])
  } finally {
    await base.stop()
  }
})
