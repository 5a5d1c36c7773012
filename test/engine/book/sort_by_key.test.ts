/** Handles and keys sorted alike: few or many, small or as large as a safe integer. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { sortByKey } from '../../../engine/machine/book/sort_by_key'

test('sorts by key, keeps the order of equal keys and touches nothing outside', () => {
  const key = fc.oneof(
    fc.integer({ min: 0, max: 3 }),
    fc.integer({ min: 0, max: 2 ** 20 }),
    fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  )
  fc.assert(
    fc.property(fc.array(key, { maxLength: 120 }), fc.integer({ min: 0, max: 5 }), (list, from) => {
      const handles = Int32Array.from({ length: from + list.length + 3 }, (_, at) => at)
      const around = Array.from({ length: from }, () => 5)
      const keys = Float64Array.from([...around, ...list, 7])
      sortByKey(handles, keys, from, list.length)
      const sorted = list.map((key, at) => ({ key, handle: from + at })).sort((a, b) => a.key - b.key)
      expect([...keys]).toEqual([...around, ...sorted.map(({ key }) => key), 7])
      const outside = [...handles.slice(0, from), ...handles.slice(from + list.length)]
      expect([...handles.slice(from, from + list.length)]).toEqual(sorted.map(({ handle }) => handle))
      expect(outside.every((handle) => handle < from || handle >= from + list.length)).toBeTrue()
    }),
    { numRuns: 500 },
  )
})
