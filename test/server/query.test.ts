/** The query of a request as text by name (api.md "Queries"). */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Refusal } from '../../protocol/refusals'
import { readQuery } from '../../server/edge/body'

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
