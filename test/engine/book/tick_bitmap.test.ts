/** The bitmap of occupied ticks against a plain set. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { BITMAP_STEP, TickBitmap } from '../../../engine/machine/book/tick_bitmap'
import { LAW_SEED } from './random_books'

const SIZE = 2 * BITMAP_STEP
const position = fc.oneof(
  fc.integer({ min: 0, max: SIZE - 1 }),
  fc.integer({ min: 0, max: 70 }),
  fc.constantFrom(0, 31, 32, 1023, 1024, BITMAP_STEP - 1, BITMAP_STEP, SIZE - 1),
)

test('the next and previous occupied tick are those of a sorted set', () => {
  const operation = fc.record({ at: position, set: fc.boolean() })
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 40 }), fc.array(position), (operations, probes) => {
      const bitmap = new TickBitmap(SIZE)
      const model = new Set<number>()
      for (const { at, set } of operations) {
        if (set) {
          bitmap.set(at)
          model.add(at)
        } else {
          bitmap.clear(at)
          model.delete(at)
        }
      }
      const sorted = [...model].sort((a, b) => a - b)
      for (const probe of [-1, SIZE, ...probes]) {
        expect(bitmap.next(probe)).toBe(sorted.find((at) => at >= probe) ?? -1)
        expect(bitmap.previous(probe)).toBe(sorted.findLast((at) => at <= probe) ?? -1)
      }
    }),
    { numRuns: 1000, seed: LAW_SEED },
  )
})
