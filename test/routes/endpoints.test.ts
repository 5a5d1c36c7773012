/** Every endpoint: its answer, its refusals, its methods; and nothing undeclared leaves. */

import { describe, expect, test } from 'bun:test'
import { REFUSAL_BY_CODE, Refusal } from '../../protocol/refusals'
import { exact, t } from '../../protocol/wire/values'
import { csvOf } from '../../server/edge/answer_texts'
import { declaredRefusals } from '../../server/edge/declared'
import { openHarness } from '../kit/server/harness'
import { explained, tableProblems } from './explain_rows'
import { against, contractOf, EDGE, FITTING, methodOf, refusing, SECRET } from './rows'

const PICKS =
  'it must fail rather than send it. If the handler takes single fields of the result, add `picks: true` to its row; if ' +
  "not, make every object of the contract's answer `exact({ ... })`."

test('every endpoint of the manifest has a row, and every row an endpoint', async () => {
  const problems = await tableProblems()
  expect(problems.length, problems.join('\n\n')).toBe(0)
})

for (const row of FITTING) {
  describe(row.endpoint, () => {
    const route = contractOf(row)

    test(`answers ${row.status} with the declared shape`, async () => {
      await against(
        row,
        () => row.gives,
        async (harness, send) => {
          const answered = await send()
          const { status, headers, json } = answered
          const wanted = { status: row.status, json: row.answers ?? row.gives }
          expect({ status, json }, explained(row, answered, harness)).toEqual(wanted)
          expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
          expect(headers.get('content-type')).toBe('application/json')
          expect(harness.lines).toEqual([])
        },
      )
    })

    test('gives each declared refusal of the venue as a problem document', async () => {
      const codes = declaredRefusals(route).filter((code) => !EDGE.has(code))
      for (const code of codes) {
        await against(row, refusing(code), async (harness, send) => {
          const { status, headers, json } = await send()
          const entry = REFUSAL_BY_CODE.get(code)!
          expect(
            status,
            `${row.endpoint} declares the refusal ${code}, but does not answer ${entry.status} when its method refuses so: ` +
              'remove the code from `refuses` of the contract, or let the handler pass the refusal on.',
          ).toBe(entry.status)
          expect(headers.get('content-type')).toBe('application/problem+json')
          expect(json).toMatchObject({
            type: `/swagger#${code}`,
            status: entry.status,
            code,
            detail: entry.message,
            message: entry.message,
            request_id: headers.get('x-request-id'),
            applied:
              ({ order_exists: 'yes', outcome_unknown: 'unknown' } as Record<string, string>)[code] ?? 'no',
          })
          expect(harness.lines).toEqual([])
          const retry = status === 429 || status === 503 ? '2' : null
          expect(headers.get('retry-after')).toBe(retry)
        })
      }
    })

    test('answers 500 without a word of what failed, and never claims it was not applied', async () => {
      if (row.venue === undefined && row.own === undefined && row.enclave === undefined) return
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
          expect(
            status,
            `${row.endpoint}, when its method gives an undeclared field: ` +
              (row.picks ? `remove \`picks: true\` from its row.` : PICKS),
          ).toBe(row.picks ? row.status : 500)
          expect(text + harness.lines.join()).not.toContain(SECRET)
        },
      )
    })

    test('answers OPTIONS, and 405 for a method it does not take, to any caller', async () => {
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
  })
}

test('settlement status asks for one batch or one own order, never for both', async () => {
  const refusing = (code: 'batch_unknown' | 'order_unknown') => () => {
    throw new Refusal(code)
  }
  const harness = openHarness({
    venue: { settlementBatch: refusing('batch_unknown'), settlementOfOrder: refusing('order_unknown') },
  })
  const order = `order_id=${'ab'.repeat(16)}`
  const asked = async (query: string) => {
    const { json } = await harness.call('GET', `/settlement/status?${query}`)
    return (json as { code: string }).code
  }
  expect(await asked('batch=3')).toBe('batch_unknown')
  expect(await asked(order)).toBe('order_unknown')
  expect(await asked(`batch=3&${order}`)).toBe('field_invalid')
  await harness.stop()
})

test('an inclusion proof is asked by commitment or by leaf index, never by both', async () => {
  const harness = openHarness({
    venue: {
      treeInclusion: (leaf) => {
        throw new Refusal(typeof leaf === 'number' ? 'leaf_unknown' : 'order_unknown')
      },
    },
  })
  const commitment = `commitment=${'01'.repeat(32)}`
  const asked = async (query: string) => {
    const { json } = await harness.call('GET', `/tree/inclusion?${query}`)
    return (json as { code: string }).code
  }
  expect(await asked('leaf_index=3')).toBe('leaf_unknown')
  expect(await asked(commitment)).toBe('order_unknown')
  expect(await asked(`leaf_index=3&${commitment}`)).toBe('field_invalid')
  expect(await asked('')).toBe('field_missing')
  await harness.stop()
})

test('a revocation is answered once it is durable, or refused', async () => {
  const durable = Promise.withResolvers<void>()
  const harness = openHarness({ venue: { revoke: () => durable.promise } })
  const asked = harness.call('POST', '/auth/token/revoke')
  expect(await Promise.race([asked, Bun.sleep(50).then(() => 'waits')])).toBe('waits')
  durable.reject(new Refusal('outcome_unknown'))
  expect((await asked).status).toBe(503)
  await harness.stop()
})

test('columns are those of the schema, null is empty, and separators are quoted', () => {
  const body = exact({ rows: t.Array(exact({ name: t.String(), count: t.Integer(), note: t.String() })) })
  const rows = [
    { name: 'a', count: 1, note: null },
    { name: 'b,"c"', count: 0, note: 'd\ne' },
  ]
  expect(csvOf(body, 'rows')({ rows })).toBe('name,count,note\r\na,1,\r\n"b,""c""",0,"d\ne"\r\n')
})
