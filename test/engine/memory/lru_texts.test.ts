/** What is kept is bounded, and the least lately used goes first. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { LruTexts, SharedTexts } from '../../../engine/memory/texts'

test('never more characters are kept than allowed, and what was just used is among them', () => {
  const step = fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd', 'e'), characters: fc.nat(60) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (script) => {
      const kept = new LruTexts<number>(100)
      const sizes = new Map<string, number>()
      for (const [at, { name, characters }] of script.entries()) {
        kept.set(name, at, characters)
        sizes.set(name, characters)
        expect(kept.get(name)).toBe(at)
        let total = 0
        for (const [other, size] of sizes) if (kept.get(other) !== undefined) total += size
        expect(total).toBeLessThanOrEqual(100)
      }
    }),
    { numRuns: 500, verbose: true },
  )
  const kept = new LruTexts<string>(10)
  kept.set('old', 'x', 5)
  kept.set('new', 'y', 5)
  kept.get('old')
  kept.set('newest', 'z', 5)
  expect([kept.get('old'), kept.get('new'), kept.get('newest')]).toEqual(['x', undefined, 'z'])
  kept.set('huge', 'h', 11)
  expect(kept.get('huge')).toBeUndefined()
  expect(kept.get('newest')).toBe('z')
})

test('a shared text stays while a row refers to it, and its number is used again', () => {
  const texts = new SharedTexts()
  const a = texts.take('a')
  expect([texts.take('a'), texts.take('b'), texts.size]).toEqual([a, a + 1, 2])
  texts.drop(a)
  expect([texts.at(a), texts.size]).toEqual(['a', 2])
  texts.drop(a)
  expect([texts.size, texts.take('c'), texts.at(a)]).toEqual([1, a, 'c'])
})
