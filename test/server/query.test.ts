/** The query of a request as text by name (api.md "Queries"). */
import { afterEach, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Refusal } from '../../protocol/refusals'
import { readQuery } from '../../server/edge/body'
import { QUERIES_KEPT_MAX } from '../../server/limits'
import { type Harness, openHarness, TOKEN } from '../kit/server/harness'

let harness: Harness | undefined
afterEach(() => harness?.stop())

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

test('a query that is kept says what it said, among more than are kept, and one that is refused is refused again', async () => {
  const read: unknown[] = []
  const events = (_: string, page: unknown) => {
    read.push(page)
    return '{"items":[],"next_after":null}'
  }
  harness = openHarness({ venue: { own: { events } as never } })
  const headers = { authorization: `Bearer ${TOKEN}` }
  const ask = async (query: string) => {
    const answer = await harness!.app.fetch(new Request(`http://localhost/events${query}`, { headers }))
    return answer.status
  }
  for (let round = 0; round < 2; round++) {
    for (let after = 0; after < 2 * QUERIES_KEPT_MAX; after++) {
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
